"""Turns a spec into a plan, which is plain data: compiled, explained, compared. Pure."""
