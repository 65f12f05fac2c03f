"""What the first objects tell before any is read: their columns, and whether options fit."""
