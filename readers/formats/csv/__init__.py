"""CSV: lines of separated values."""
