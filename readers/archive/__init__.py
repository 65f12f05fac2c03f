"""Archived records: how they lie in objects, and readers of them."""
