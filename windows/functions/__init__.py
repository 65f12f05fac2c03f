"""Functions of windows: they make results of rows."""
