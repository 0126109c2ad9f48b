"""JSON without a schema of its own: many records in columns, and one record strictly."""
