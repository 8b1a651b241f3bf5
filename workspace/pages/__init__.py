"""The pages of people: documents by GET, pieces of them for htmx, and files. Pages decide nothing; acts go to the API."""
