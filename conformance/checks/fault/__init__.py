"""FAULT: while the other side fails."""
