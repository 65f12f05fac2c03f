"""``tidegate account``: every row that a query read, and what became of it."""
