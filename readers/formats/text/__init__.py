"""Text: each line is a row, or each object."""
