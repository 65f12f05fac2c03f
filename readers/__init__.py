"""Readers fetch ranges of splits, and decode them to Arrow.  Executors run them, and the driver peeks by them."""
