"""Shared by the benchmarks: peers in one session, and rounds in which they are measured by turns."""
