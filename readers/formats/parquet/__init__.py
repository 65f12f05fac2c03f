"""Parquet: objects of row groups."""
