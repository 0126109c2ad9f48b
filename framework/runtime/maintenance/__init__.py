"""Maintenance beside commits, and on request."""
