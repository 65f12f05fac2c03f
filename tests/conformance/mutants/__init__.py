"""Connectors that each commit one sin."""

from tests.conformance.mutants import align, read, split

MUTANTS = [*split.MUTANTS, *read.MUTANTS, *align.MUTANTS]
