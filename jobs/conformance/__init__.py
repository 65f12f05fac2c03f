"""``tidegate conformance``: the kit on the command line."""
