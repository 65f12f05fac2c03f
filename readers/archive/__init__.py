"""Archived records: Kafka's columns in Parquet objects, whose names tell their offsets and times."""
