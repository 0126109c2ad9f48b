"""Types and schemas of tables."""
