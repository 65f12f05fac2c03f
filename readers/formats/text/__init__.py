"""Text: lines, or whole objects, as they are."""
