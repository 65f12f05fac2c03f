"""Progress of queries, typed, and the listeners that get it from Spark."""
