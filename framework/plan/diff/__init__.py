"""What differs between plans, and which changes are breaking."""
