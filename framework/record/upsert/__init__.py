"""Keys and rows of upserts."""
