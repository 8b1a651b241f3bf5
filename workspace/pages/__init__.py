"""The pages of people: documents by GET, pieces of them for htmx, and files. They decide nothing; acts are the API."""
