"""A connector's connections as a target."""
