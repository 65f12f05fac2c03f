"""Discovers splits, plans batches, and writes offsets: on the driver."""
