"""Values fitted to the columns of a table."""
