"""The JSON Schema of a file."""
