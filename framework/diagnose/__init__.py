"""Codes, diagnostics with file, line and column, and how they are shown."""
