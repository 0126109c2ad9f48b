"""Parsed JSON put into the columns of tables."""
