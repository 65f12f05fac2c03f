"""STATE: restarts and snapshots."""
