"""Files of a project, and templates fetched from elsewhere."""
