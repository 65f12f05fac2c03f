"""Plans the offsets and tasks that Spark asks for, for any source."""
