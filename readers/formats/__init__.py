"""Formats of objects: executors read by them, and the driver surveys.  Here is what they share, and the small ones."""
