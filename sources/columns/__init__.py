"""Columns and DataFrames: decoded values, the source's watermark."""
