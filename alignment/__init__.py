"""Floor 1: planned alignment.  Pure logic: no I/O, no Spark, no clock."""
