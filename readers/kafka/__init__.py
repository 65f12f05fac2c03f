"""Kafka: the split reader for executors, and the client, which the driver also uses."""
