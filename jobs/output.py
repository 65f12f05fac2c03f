"""The output folder of a back-fill, which also holds all that a later run goes on from.

OUT/batch=0/part-....parquet     one folder per micro-batch, written anew when the batch is
OUT/batch=1/...                  run again: no reader of Parquet ever sees a row twice
OUT/_tidegate/checkpoint/        Spark's; readers ignore folders with an underscore
OUT/_tidegate/backfill.json      what was asked for, and how far the last run came
OUT/_tidegate/spark.log
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tidegate.alignment.splits import Positions
from tidegate.enumerators.contract import Json
from tidegate.errors import OptionError

__all__ = ["Noted", "Output"]


@dataclass(frozen=True, slots=True)
class Noted:
    """What earlier runs have noted; nothing, if this run is the first.

    positions: after their last batch.
    state: the enumerator's, such as the cluster that the positions are of.
    """

    positions: Positions = field(default_factory=dict)
    state: Json | None = None


class Output:
    """The folder and its notes."""

    def __init__(self, path: Path) -> None:
        self._given = path
        self.path = path.absolute()
        self._own = self.path / "_tidegate"
        self.checkpoint = self._own / "checkpoint"
        self.log = self._own / "spark.log"
        self._notes = self._own / "backfill.json"

    def noted(self, binding: Mapping[str, Any]) -> Noted:
        """Return what earlier runs have noted.

        binding: by option, what must be the same in every run.

        Raises OptionError when the folder belongs to something else, or to a back-fill that was
        asked for something else.
        """
        if ":/" in str(self._given):  # what a Path leaves of ://
            raise OptionError(f"--out is {self._given}, but it must be a path that this machine can write to")
        if not self._notes.exists():
            if self.path.exists() and (not self.path.is_dir() or any(set(self.path.iterdir()) - {self._own})):
                raise OptionError(
                    f"--out is {self.path}, which holds something else; give a folder that is new or empty"
                )
            return Noted()
        notes = json.loads(self._notes.read_text())
        for option, value in binding.items():
            if (before := notes["arguments"].get(option)) != value:
                raise OptionError(
                    f"{option} is {_shown(value)}, but it was {_shown(before)} when {self.path} was begun; "
                    "give the same again, or another --out"
                )
        return Noted(notes["positions"], notes.get("state"))

    @contextmanager
    def claimed(self, binding: Mapping[str, Any], state: Json | None = None) -> Iterator[None]:
        """Make the folder this back-fill's, and keep other runs out.

        state: the enumerator's, for later runs.

        Raises OptionError when it cannot be made, or another run is still writing to it.
        """
        try:
            self._own.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OptionError(f"--out is {self.path}, which cannot be made: {error.strerror}") from error
        with (self._own / "lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise OptionError(f"--out is {self.path}, to which another back-fill is writing") from None
            if not self._notes.exists():
                self._write({"arguments": dict(binding), "positions": {}, "state": state})
            yield

    def note(self, positions: Positions) -> None:
        """Remember where every split stands after a batch."""
        self._write({**json.loads(self._notes.read_text()), "positions": dict(positions)})

    def batch(self, number: int) -> str:
        """Return the folder of a batch."""
        return str(self.path / f"batch={number}")

    def rows(self) -> int:
        """Return how many rows all runs have written, from the footers of the files."""
        from pyarrow import dataset

        if not any(self.path.glob("batch=*")):
            return 0
        return int(dataset.dataset(self.path, format="parquet").count_rows())

    def _write(self, notes: Mapping[str, Any]) -> None:
        new = self._notes.with_suffix(".new")
        new.write_text(json.dumps(notes, indent=1))
        os.replace(new, self._notes)  # noqa: PTH105 - atomic, and says so


def _shown(value: Any) -> str:
    if value is None:
        return "not set"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
