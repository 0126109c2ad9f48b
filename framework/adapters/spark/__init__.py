"""What floe provides to Spark: its Python, its streaming source, and the SQL that it may run."""
