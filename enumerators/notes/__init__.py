"""Notes between the planners of one machine: alignment groups, and the reports that ``tidegate watch`` shows."""
