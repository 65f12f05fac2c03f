"""Columns and DataFrames: decoded values, the source's watermark, counts of bad event times."""
