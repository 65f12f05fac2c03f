"""Formats of objects: executors read by them, and the driver surveys.  Here is their registry, and what they share."""
