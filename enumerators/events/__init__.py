"""Where source events arrive on the driver."""
