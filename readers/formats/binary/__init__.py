"""Objects of any content, each of which is a row."""
