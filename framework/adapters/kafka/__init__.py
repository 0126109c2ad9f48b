"""Kafka: the clients, the control topic, the coordinator's seat, the announcing transaction, the readers of source
topics."""
