"""Iceberg sinks of Kafka Connect, translated into pipeline files, and what proves that both write the same rows."""
