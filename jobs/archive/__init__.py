"""``tidegate archive``: from Kafka to an archive."""
