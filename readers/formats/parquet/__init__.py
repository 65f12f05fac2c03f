"""Parquet objects, which consist of row groups."""
