"""Connectors with one sin each."""

from tests.conformance.mutants import mistakes, parts, patched

MUTANTS = [*patched.MUTANTS, *parts.MUTANTS, *mistakes.MUTANTS]
