"""Formats that bring their types with them: Avro, Protobuf, Connect's JSON, Debezium."""
