"""Rows in a table's order, in memory or through files."""
