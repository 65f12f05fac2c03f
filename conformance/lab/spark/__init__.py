"""Sessions, streams and processes of Spark, for rules that need the real one."""
