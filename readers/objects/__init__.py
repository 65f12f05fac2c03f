"""Objects, and the columns that are not in their bytes, for the driver and the executors."""
