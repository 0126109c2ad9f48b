"""What Spark has to be given: its Python, its streaming source, and which SQL it may run."""
