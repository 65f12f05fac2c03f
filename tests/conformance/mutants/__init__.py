"""Connectors with one sin each."""

from tests.conformance.mutants import align, fault, life, patched, read, read_values, spark, split, state, time, whole

MUTANTS = [
    *patched.MUTANTS,
    *split.MUTANTS,
    *read.MUTANTS,
    *read_values.MUTANTS,
    *time.MUTANTS,
    *align.MUTANTS,
    *whole.MUTANTS,
    *state.MUTANTS,
    *life.MUTANTS,
    *spark.MUTANTS,
    *fault.MUTANTS,
]
