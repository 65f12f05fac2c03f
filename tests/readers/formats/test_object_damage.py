"""Damaged objects of every format: the worst outcome is an error that names the object."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.readers.formats.fuzz_objects import OUTCOMES, REFUSED, SOUND, outcomes
from tests.readers.formats.object_seeds import FORMATS, mutant, seeds

WORST = sorted((Path(__file__).parent / "damaged").iterdir())
MUTANTS = 40
ERRORS = {REFUSED, *OUTCOMES.values()}
SURVEYED = {"stripe-footer.orc"}  # a survey does not read the damaged part
READ = {"wrong-values.orc"}  # some versions of Arrow's reader end the process, and others read other values


@pytest.mark.parametrize("file", WORST, ids=lambda file: file.name)
def test_objects_that_end_arrows_readers_are_errors(file):
    survey, read = (outcomes(file.suffix[1:], file.read_bytes(), looks=(look,)).keys() for look in (1, 2))
    if file.name in READ:
        assert survey | read <= {SOUND, *ERRORS}
        return
    assert survey == {SOUND} if file.name in SURVEYED else survey <= ERRORS
    assert read <= ERRORS


@pytest.mark.parametrize("file_format", FORMATS)
def test_sound_seeds_are_read_and_their_mutants_are_read_or_refused(file_format):
    for seed in seeds(file_format):
        assert outcomes(file_format, seed).keys() == {SOUND}
    for number in range(MUTANTS):
        assert outcomes(file_format, mutant(file_format, number)).keys() <= {SOUND, *ERRORS}
