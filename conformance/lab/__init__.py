"""What rules are tested with: labs, queries without Spark, and the judges of what they give."""
