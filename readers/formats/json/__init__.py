"""JSON: an object per line."""
