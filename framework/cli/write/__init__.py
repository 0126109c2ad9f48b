"""Verbs that write pipeline files and what surrounds them."""
