"""READ: the rows of a range."""
