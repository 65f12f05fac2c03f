"""Programs that measure, by subject.  Each runs with ``python -m benchmarks.<subject>.<name>``."""
