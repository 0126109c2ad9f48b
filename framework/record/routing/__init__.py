"""Which table a record goes to."""
