"""SQL over a block of records."""
