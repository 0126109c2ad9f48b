"""Spark: session, queries, progress."""
