"""Transforms of a connector."""
