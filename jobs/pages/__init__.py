"""Runs as HTML pages, with pictures."""
