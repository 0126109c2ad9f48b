"""The evidence for a migration review."""
