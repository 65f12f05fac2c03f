"""Benchmarks of planning, alignment, windows and generators."""
