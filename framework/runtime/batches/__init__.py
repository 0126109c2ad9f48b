"""A batch: read, staged in Spark, announced."""
