"""Columns that records bring, and their limits."""
