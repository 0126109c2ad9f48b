"""The tables of a run: created, refreshed, blocked."""
