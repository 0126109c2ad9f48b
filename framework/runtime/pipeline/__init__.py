"""A pipeline's run, from its beginning to its end."""
