"""Kafka: the clients, the control topic, coordinator leadership, the announcing transaction, the readers of source
topics."""
