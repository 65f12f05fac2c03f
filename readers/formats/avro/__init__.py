"""Avro: object container files."""
