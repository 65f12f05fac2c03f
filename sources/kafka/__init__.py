"""The Kafka source and its options."""
