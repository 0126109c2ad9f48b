"""Maintenance of Iceberg tables: rewrites, expiry and removal of files."""
