"""ORC objects, which consist of stripes."""
