"""Event times of rows.  The driver plans by them, and executors read by them."""
