"""Shared by the benchmarks: peers by turns, the batches of a query, CPU seconds of processes."""
