"""What touches the world: Iceberg, Kafka, Parquet, Spark, registries, secrets and files. It decides nothing."""
