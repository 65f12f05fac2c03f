"""What objects are, and the columns that are not in their bytes, for driver and executors."""
