"""Damaged objects of every format: none ends the process that reads it, or is worse than an error that names it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.readers.fuzz_objects import OUTCOMES, REFUSED, SOUND, outcomes
from tests.readers.object_seeds import FORMATS, mutant, seeds

WORST = sorted((Path(__file__).parent / "damaged").iterdir())
MUTANTS = 40


@pytest.mark.parametrize("file", WORST, ids=lambda file: file.name)
def test_objects_that_end_arrows_readers_are_errors(file):
    found = outcomes(file.suffix[1:], file.read_bytes(), looks=(1, 2))
    assert found.keys() <= {SOUND, REFUSED, *OUTCOMES.values()}


@pytest.mark.parametrize("file_format", FORMATS)
def test_sound_seeds_are_read_and_their_mutants_are_read_or_refused(file_format):
    for seed in seeds(file_format):
        assert outcomes(file_format, seed).keys() == {SOUND}
    for number in range(MUTANTS):
        assert outcomes(file_format, mutant(file_format, number)).keys() <= {SOUND, REFUSED, *OUTCOMES.values()}
