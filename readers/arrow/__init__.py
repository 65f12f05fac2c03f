"""Arrow batches as Spark expects them, whatever they were decoded from."""
