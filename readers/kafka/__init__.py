"""Kafka: the split reader of executors, and the client, which the driver uses, too."""
