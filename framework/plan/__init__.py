"""A spec to a plan, which is plain data: compiled, explained, compared. Pure."""
