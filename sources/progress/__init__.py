"""Progress of sources and queries, typed, and the listeners that get it from Spark."""
