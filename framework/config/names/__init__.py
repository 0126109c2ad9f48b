"""Names and patterns: tables, columns, files."""
