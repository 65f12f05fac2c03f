"""The event times of chunks, as planning sees them."""
