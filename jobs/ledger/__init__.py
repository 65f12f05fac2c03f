"""``tidegate ledger``: what a query keeps, why objects were read or not, and reading them again."""
