"""enumerators."""
