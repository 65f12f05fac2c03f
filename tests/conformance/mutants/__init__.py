"""Connectors with one sin each."""

from tests.conformance.mutants import parts, patched, planners

MUTANTS = [*patched.MUTANTS, *parts.MUTANTS, *planners.MUTANTS]
