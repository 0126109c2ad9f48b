"""Iceberg tables: opened, created, altered, committed and looked at."""
