"""Drills: a fault in a small pipeline of its own, and what the tables hold afterwards."""
