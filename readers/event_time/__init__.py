"""Event times of rows, by which the driver plans and executors read."""
