"""Formats of objects: their registry, and the code that they share.  Executors read by them, the driver surveys."""
