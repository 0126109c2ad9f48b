"""The embedded stack: a real Kafka broker and a SQL catalog on loopback, without Docker, and the demos that use it."""
