"""The files of a query in its state location."""
