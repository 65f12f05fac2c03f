"""Which event times a chunk has, as far as planning sees."""
