"""Rows of many tables put apart, and text kept as places in a dictionary."""
