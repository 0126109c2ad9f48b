"""Records' bytes to Arrow to the rows of tables: decoded, routed, converted. Pure."""
