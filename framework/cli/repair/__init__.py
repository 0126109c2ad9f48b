"""Verbs that repair tables, offsets and dead letters."""
