"""The output folder of a back-fill, including the state from which a later run continues.

OUT/batch=0/part-....parquet     one folder per micro-batch, written anew if the batch is repeated:
OUT/batch=1/...                  no reader of Parquet ever sees a row twice
                                 (tidegate_batch=0 if the rows have a column "batch")
OUT/_tidegate/checkpoint/        Spark's checkpoint; readers ignore folders with an underscore
OUT/_tidegate/state/             the source's own state, such as an S3 source's stateLocation
OUT/_tidegate/backfill.json      the arguments that later runs must repeat
OUT/_tidegate/spark.log
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from tidegate.enumerators.contract import Json
from tidegate.errors import OptionError
from tidegate.jobs.files import writing
from tidegate.jobs.spark_checkpoint import BatchLogs, open_checkpoint

OWN_FOLDER, STATE_FOLDER = "_tidegate", "state"


class Output:
    """The folder and its notes."""

    def __init__(self, path: Path) -> None:
        self._given = path
        self.path = path.absolute()
        self._own = self.path / OWN_FOLDER
        self.checkpoint = self._own / "checkpoint"
        self.log = self._own / "spark.log"
        self.kept = self._own / STATE_FOLDER
        self._lock: TextIO | None = None
        self._notes = self._own / "backfill.json"

    def state(self, binding: Mapping[str, Any]) -> Json | None:
        """Return the enumerator's snapshot after the last written batch.

        binding: by option, the values that must be the same in every run.

        Raises OptionError if the folder holds something else, or a back-fill with another binding.
        """
        if ":/" in str(self._given):  # a Path turns :// into this
            given = str(self._given).replace(":/", "://", 1)
            raise OptionError(f"--out is {given}, but it must be a folder of this machine, such as orders/")
        if not self._notes.exists():
            if self.path.exists() and (not self.path.is_dir() or any(set(self.path.iterdir()) - {self._own})):
                raise OptionError(
                    f"--out is {self.path}, which holds something else; give a folder that is new or empty"
                )
            return None
        notes = json.loads(self._notes.read_text())
        for option, value in binding.items():
            before = notes["arguments"].get(option)
            if before != value:
                raise OptionError(
                    f"{option} is {_shown(value)}, but it was {_shown(before)} when {self.path} was begun; "
                    "give the same again, or another --out"
                )
        written = BatchLogs.read(open_checkpoint(str(self.checkpoint), "--out")).written
        end = written[max(written)].ours("0") if written else None  # of the only source of its query
        return None if end is None else end.enumerator

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other runs out of the folder while this run uses or claims it.

        Raises OptionError if another run is still writing to it.
        """
        try:
            if self._own.is_dir():
                self._keep_out()
            yield
        finally:
            if self._lock is not None:
                self._lock.close()
                self._lock = None

    def claim(self, binding: Mapping[str, Any]) -> None:
        """Claim the folder for this back-fill; called within ``alone``.

        Raises OptionError if it cannot be created, or another run was faster.
        """
        with writing("--out", self.path):
            self._own.mkdir(parents=True, exist_ok=True)
        if self._lock is None:
            self._keep_out()
        if not self._notes.exists():
            new = self._notes.with_suffix(".new")
            new.write_text(json.dumps({"arguments": dict(binding)}, indent=1))
            new.replace(self._notes)

    def batch(self, number: int, columns: Collection[str]) -> str:
        """Return the folder of a batch, with a name that is not the name of a column."""
        name = "batch"
        while name in {column.lower() for column in columns}:
            name = f"tidegate_{name}"
        return str(self.path / f"{name}={number}")

    def rows(self, begin: int = 0) -> int:
        """Return the number of rows from a batch on, from the footers of the files."""
        from pyarrow import dataset

        batches = [path for path in self.path.glob("*batch=*") if int(path.name.partition("=")[2]) >= begin]
        return sum(dataset.dataset(path, format="parquet").count_rows() for path in batches)

    def _keep_out(self) -> None:
        with writing("--out", self.path):
            self._lock = (self._own / "lock").open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OptionError(f"--out is {self.path}, to which another back-fill is writing") from None


def _shown(value: Any) -> str:
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return str(value).lower()
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
