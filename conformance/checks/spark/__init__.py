"""SPARK: queries that Spark runs."""
