"""Connectors with one sin each."""

from tests.conformance.mutants import parts, patched

MUTANTS = [*patched.MUTANTS, *parts.MUTANTS]
