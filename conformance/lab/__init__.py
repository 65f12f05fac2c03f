"""Tools of the rules: labs, queries without Spark, and judges of their rows."""
