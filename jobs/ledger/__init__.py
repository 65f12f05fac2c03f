"""``tidegate ledger``: shows a query's state, explains why objects were read or not, and requests them again."""
