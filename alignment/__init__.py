"""Planned alignment.  Pure logic: no I/O, no Spark, no clock."""
