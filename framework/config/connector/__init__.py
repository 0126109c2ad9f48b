"""A Kafka Connect sink's configuration as a pipeline file."""
