"""tidegate: source connectors for PySpark that read splits in event-time order."""
