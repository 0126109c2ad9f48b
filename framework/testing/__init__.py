"""The `tests:` of pipeline files, run without Kafka."""
