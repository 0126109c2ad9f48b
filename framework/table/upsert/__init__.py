"""Keys of tables, and the layout of the key index."""
