"""Damaged objects of the formats that Arrow does not read alone: the worst is an error that names the object."""

from __future__ import annotations

import functools
import random
import re
from decimal import Decimal

import pyarrow as pa
import pytest

from tests.readers.formats.avro.files import avro, logical
from tests.readers.formats.contract import CASES, ROWS, rows_of
from tests.support.bytes.damage import bit, byte, gap, number, surplus, variable_number
from tests.support.objects.lab import InMemory, held, read
from tidegate.errors import BadRecordError, CorruptDataError, OptionError

MUTANTS = 40


def _avro(codec: str) -> bytes:
    rows = [{"at": n * 10**6, "n": None if n % 7 == 0 else n, "s": f"text {n}", "d": Decimal(n)} for n in range(60)]
    return avro(
        rows, codec, 300, at=logical("long", "timestamp-micros"), n=["int", "null"], s="string",
        d=logical("bytes", "decimal", precision=9),
    )  # fmt: skip


@functools.cache
def seeds(file_format: str) -> list[bytes]:
    """Return sound objects of a format."""
    case = CASES[file_format]
    match file_format:
        case "avro":
            return [*map(_avro, ("null", "null", "deflate", "snappy", "bzip2", "xz"))]
        case "json":
            nested = pa.array([{"a": n, "b": [str(n)] * (n % 3)} for n in range(60)])
            return [case.write(rows_of(60), 60), case.write(rows_of(60).append_column("nested", nested), 60)]
        case "csv":
            content = case.write(rows_of(60), 60)
            return [content, content.replace(b"text ", b'"a, \\"quoted\\" ').replace(b"\n", b'"\n')]
        case _:
            return [case.write(case.rows(60), 60), "grüße\r\n".encode() * 20]


def mutant(file_format: str, seed: int) -> bytes:
    """Return a damaged object of a format."""
    dice = random.Random(f"{file_format} {seed}")
    made = bytearray(dice.choice(seeds(file_format)))
    damages = (byte, byte, byte, bit, bit, number, variable_number, gap, surplus)
    for _ in range(dice.choice((1, 1, 1, 2, 2, 3, 5, 9))):
        dice.choice(damages)(made, dice.randrange(len(made) - 1), dice)
    if dice.random() < 0.03:
        del made[dice.randrange(len(made) + 1) :]
    return bytes(made)


@pytest.mark.parametrize("file_format", ["avro", "json", "csv", "text"])
def test_a_damaged_object_is_read_or_refused_by_its_name(file_format: str) -> None:
    problems: list[str] = []
    for number_of in range(MUTANTS):
        content, case = mutant(file_format, number_of), CASES[file_format]
        made, obj = case.made(InMemory(content)), held(content)
        schema = case.rows(1).schema if file_format == "text" else ROWS
        looks = [lambda: read(made, obj, schema), lambda: read(made, obj, made.infer([obj]))]  # noqa: B023 - called here
        if file_format != "text":
            looks.append(lambda: made.survey(obj, "at"))  # noqa: B023 - called here
        for look in looks if content else ():
            try:
                look()
            except (BadRecordError, CorruptDataError) as problem:  # noqa: PERF203 - an error is expected
                problems.append(str(problem))
            except OptionError:  # a column has another type
                pass
    assert problems or file_format == "text"
    assert all("s3://data/x" in problem and not re.search(r"text \d", problem) for problem in problems)
