"""Notes between the planners of one machine: alignment groups, and the progress that ``tidegate watch`` shows."""
