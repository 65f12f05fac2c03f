"""``tidegate demo``: the demonstration."""
