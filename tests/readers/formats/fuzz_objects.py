"""Reads damaged objects, to find those that end, fill or stop the process that reads them.

    python -m tests.readers.formats.fuzz_objects --format orc --mutants 20000
        [--first 0] [--without-guard] [--keep FOLDER]

A process infers, surveys and reads each mutant, as a query does.  No such process should end; if one does, that is
counted, and another one continues.  With ``--without-guard`` there are no decoder processes.  This finds the mutants
that need them, and ``--keep`` writes these mutants as files.  A mutant is the same for the same number and the same
version of the library that wrote the seeds.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import select
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa

from tests.readers.formats.object_seeds import FORMATS, SCHEMA, mutant
from tests.support.objects.lab import InMemory, held, read
from tidegate.errors import BadRecordError, CorruptDataError, OptionError
from tidegate.readers.formats.guarded.format import GuardedFormat
from tidegate.readers.objects.values import ObjectFormat
from tidegate.sources.s3.format import S3FormatOptions

PATIENCE_S = 300  # for one mutant, since machines may be busy
DECODER_PATIENCE_S = 30
MEMORY_BYTES = 4 << 30  # the memory of the process that reads
ENDED, BUSY, TOO_LARGE = "ends Arrow's reader", "keeps Arrow's reader busy", "raise maxDecompressedBytes"
OUTCOMES = {ENDED: "decoder ended", BUSY: "decoder hung", TOO_LARGE: "over the bound"}
SOUND, REFUSED, UNEXPECTED, DEATH, HANG = "read", "refused", "unexpected error", "process ended", "hung"


def looks_of(made: ObjectFormat, content: bytes, file_format: str) -> list[Callable[[], Any]]:
    """Return the calls of a query on an object; their results do not matter."""
    obj = held(content)
    is_text = file_format == "text"
    given = pa.schema([("value", pa.string())]) if is_text else SCHEMA
    return [
        lambda: made.infer([obj]),
        lambda: made.survey(obj, None if is_text else "at"),
        lambda: read(made, obj, given),
        lambda: read(made, obj, made.infer([obj])),
    ]


def outcomes(
    file_format: str, content: bytes, *, guarded: bool = True, looks: Sequence[int] = (0, 1, 2, 3)
) -> Counter[str]:
    """Infer, survey and read an object, and count the outcomes."""
    options = {"header": True} if file_format == "csv" else {}
    made = S3FormatOptions(file_format=file_format, **options).object_format(InMemory(content))
    if isinstance(made, GuardedFormat) and not guarded:
        made = made.inner
    counted: Counter[str] = Counter()
    ways = looks_of(made, content, file_format)
    for look in looks if content else ():
        try:
            ways[look]()
            counted[SOUND] += 1
        except (BadRecordError, CorruptDataError, OptionError) as problem:  # noqa: PERF203 - an error is expected
            known = (name for sentence, name in OUTCOMES.items() if sentence in str(problem))
            counted[next(known, REFUSED)] += 1
        except Exception as problem:  # noqa: BLE001 - the error is reported
            counted[f"{UNEXPECTED}: {type(problem).__name__}: {problem}"[:300]] += 1
    return counted


def run_here(file_format: str, first: int, end: int, *, guarded: bool) -> None:
    """Read mutants in this process, and print a line before and after each."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    with mock.patch("tidegate.readers.formats.guarded.process.BUSY_S", DECODER_PATIENCE_S):
        for number in range(first, end):
            print(json.dumps([number, None]), flush=True)
            counted = outcomes(file_format, mutant(file_format, number), guarded=guarded)
            print(json.dumps([number, counted]), flush=True)


def reports(command: Sequence[str]) -> Iterator[tuple[int, Any]]:
    """Yield the lines that a process prints; at last -1 and its exit status, or HANG if it fell silent."""
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        output = process.stdout
        assert output is not None
        rest = b""
        while select.select([output], [], [], PATIENCE_S)[0]:
            data = os.read(output.fileno(), 1 << 16)
            if not data:
                yield -1, process.wait()
                return
            *lines, rest = (rest + data).split(b"\n")
            yield from map(json.loads, lines)
        process.kill()
        yield -1, HANG


def run(file_format: str, first: int, end: int, *, guarded: bool, keep: Path | None = None) -> Counter[str]:
    """Read mutants in processes that may end, and return the number of each outcome."""
    counted: Counter[str] = Counter()
    while first < end:
        command = [sys.executable, "-m", "tests.readers.formats.fuzz_objects", "--format", file_format, "--here"]
        command += ["--first", str(first), "--mutants", str(end - first)]
        at = first
        for number, outcome in reports(command if guarded else [*command, "--without-guard"]):
            if number >= 0:
                at = number
                counted.update(outcome or {})
                continue
            if outcome == 0:
                return counted
            name = HANG if outcome == HANG else f"{DEATH}: {signal.Signals(-outcome).name if outcome < 0 else outcome}"
            counted[name] += 1
            print(f"{file_format} mutant {at}: {name}", flush=True)
            if keep is not None:
                (keep / f"{at}.{file_format}").write_bytes(mutant(file_format, at))
        first = at + 1
    return counted


def main() -> None:
    """Print the outcomes of the mutants of each format; the status is 1 if one of them should not happen."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--format", choices=FORMATS, nargs="+", default=FORMATS)
    parser.add_argument("--mutants", type=int, default=20_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--without-guard", action="store_true")
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    end, guarded = given.first + given.mutants, not given.without_guard
    if given.here:
        run_here(given.format[0], given.first, end, guarded=guarded)
        return
    wrong = 0
    for file_format in given.format:
        counted = run(file_format, given.first, end, guarded=guarded, keep=given.keep)
        print(f"{file_format}: {given.mutants} mutants; {dict(counted.most_common())}", flush=True)
        wrong += sum(count for name, count in counted.items() if name.startswith((UNEXPECTED, DEATH, HANG)))
    sys.exit(min(wrong, 1))


if __name__ == "__main__":
    main()
