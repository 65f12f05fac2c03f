"""Arrow batches as Spark expects them, from any decoder."""
