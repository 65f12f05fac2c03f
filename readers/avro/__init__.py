"""Avro: containers, and the records in them, as Arrow; schemas of strangers are read within bounds."""
