"""JSON lines: each line is a JSON object."""
