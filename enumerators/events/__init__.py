"""The server on the driver that takes source events from readers."""
