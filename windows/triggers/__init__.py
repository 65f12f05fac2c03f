"""Triggers: they decide when the pane of a window fires."""
