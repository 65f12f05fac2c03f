"""Benchmarks of the S3 source."""
