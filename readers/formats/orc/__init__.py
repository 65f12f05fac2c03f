"""ORC: objects of stripes."""
