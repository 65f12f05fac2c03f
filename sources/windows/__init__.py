"""Windows on Spark: the operator of ``tidegate.windows`` behind transformWithState, or Spark's own aggregation."""
