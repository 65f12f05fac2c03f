"""Plans the offsets and tasks that Spark asks any source for."""
