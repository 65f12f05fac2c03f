"""Connectors with one sin each."""

from tests.conformance.mutants import data_sources, mistakes, parts, patched

MUTANTS = [*patched.MUTANTS, *parts.MUTANTS, *mistakes.MUTANTS, *data_sources.MUTANTS]
