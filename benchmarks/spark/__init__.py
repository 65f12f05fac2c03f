"""Benchmarks of what Spark costs any Python data source."""
