"""A small interpreter of Kafka Connect's Iceberg sink: what its tables hold for given records."""
