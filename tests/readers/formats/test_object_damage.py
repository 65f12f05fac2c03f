"""Damaged objects of every format: the worst outcome is an error that names the object."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from tests.readers.formats.object_seeds import FORMATS, SCHEMA, mutant, seeds
from tests.support.objects.lab import InMemory, held, read
from tidegate.errors import BadRecordError, CorruptDataError, OptionError
from tidegate.sources.s3.format import S3FormatOptions

SOUND, REFUSED = "read", "refused"
WORST = sorted((Path(__file__).parent / "damaged").iterdir())
MUTANTS = 40
SURVEYED = {"stripe-footer.orc"}  # a survey does not read the damaged part
READ = {"wrong-values.orc"}  # some versions of Arrow's reader end the process, and others read other values


def outcomes(file_format: str, content: bytes, *, looks: Sequence[int] = (0, 1, 2, 3)) -> set[str]:
    """Infer, survey and read an object, as a query does; any other error than one that refuses it passes."""
    is_text = file_format == "text"
    options = {"header": True} if file_format == "csv" else {}
    made, obj = S3FormatOptions(file_format=file_format, **options).object_format(InMemory(content)), held(content)
    ways = [
        lambda: made.infer([obj]),
        lambda: made.survey(obj, None if is_text else "at"),
        lambda: read(made, obj, pa.schema([("value", pa.string())]) if is_text else SCHEMA),
        lambda: read(made, obj, made.infer([obj])),
    ]
    seen, problems = set(), []
    for look in looks if content else ():
        try:
            ways[look]()
            seen.add(SOUND)
        except (BadRecordError, CorruptDataError) as problem:  # noqa: PERF203 - an error is expected
            problems.append(str(problem))
            seen.add(REFUSED)
        except OptionError:  # a column has another type
            seen.add(REFUSED)
    assert all("s3://data/x" in problem and not re.search(r"text \d", problem) for problem in problems), problems
    return seen


@pytest.mark.parametrize("file", WORST, ids=lambda file: file.name)
def test_objects_that_end_arrows_readers_are_errors(file):
    survey, read = (outcomes(file.suffix[1:], file.read_bytes(), looks=(look,)) for look in (1, 2))
    if file.name not in READ:
        assert survey == {SOUND if file.name in SURVEYED else REFUSED}
        assert read == {REFUSED}


@pytest.mark.parametrize("file_format", FORMATS)
def test_sound_seeds_are_read_and_their_mutants_are_read_or_refused(file_format):
    for seed in seeds(file_format):
        assert outcomes(file_format, seed) == {SOUND}
    for number in range(MUTANTS):
        outcomes(file_format, mutant(file_format, number))
