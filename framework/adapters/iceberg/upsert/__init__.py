"""Upserts on Iceberg: find the rows of keys, delete files for them, the key index, remembered deleted keys."""
