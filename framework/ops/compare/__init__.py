"""Comparing two Iceberg tables, snapshots or branches row by row, in bounded memory."""
