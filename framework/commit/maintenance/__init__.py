"""Decisions about the health of tables: what expires, what is rewritten. Pure."""
