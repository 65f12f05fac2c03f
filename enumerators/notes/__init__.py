"""Notes that the planners of one machine leave for each other: alignment groups, and what ``tidegate watch`` shows."""
