"""TIME: watermark and event time."""
