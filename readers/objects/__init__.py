"""Objects and chunks, and the columns that a key or a chunk gives to rows."""
