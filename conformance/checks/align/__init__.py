"""ALIGN: splits kept together in event time."""
