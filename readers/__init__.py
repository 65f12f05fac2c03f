"""Fetches ranges of splits and decodes them to Arrow: on executors, and where the driver peeks."""
