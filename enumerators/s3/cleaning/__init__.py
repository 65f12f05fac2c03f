"""What becomes of objects that were read for good."""
