"""Formats of objects, for reads on executors and surveys on the driver: their registry, and the code they share."""
