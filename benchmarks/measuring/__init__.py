"""What the benchmarks share: peers by turns, the batches of a query, CPU seconds of processes."""
