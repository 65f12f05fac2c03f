"""Programs that measure.  Each runs with ``python -m benchmarks.<name>``."""
