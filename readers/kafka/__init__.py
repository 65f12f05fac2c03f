"""Kafka: the split reader of executors, and the client by which the driver asks, too."""
