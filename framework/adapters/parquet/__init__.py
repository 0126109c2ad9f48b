"""Rows to Parquet data files with Iceberg's metrics."""
