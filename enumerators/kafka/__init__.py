"""Kafka on the driver: partitions as splits."""
