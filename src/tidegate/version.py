"""The version of tidegate: the driver and the executors of a cluster must have the same."""

__version__ = "0.1.0"
