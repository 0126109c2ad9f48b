"""Values to the exact types of a table's columns."""
