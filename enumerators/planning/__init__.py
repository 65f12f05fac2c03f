"""From an enumerator to the offsets and tasks that Spark asks for, whatever the source."""
