"""What agents send when they call the broker's tools (Model Context Protocol), read into values."""
