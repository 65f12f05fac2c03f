"""Spark for the rules: one session that they share, and streaming queries with a checkpoint, over several runs."""

from __future__ import annotations

import atexit
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException, PySparkRuntimeError
from pyspark.sql import DataFrame, SparkSession

from tidegate.add_ons import session_conf
from tidegate.conformance.lab.base import BaseLab, ConformanceError, slowness
from tidegate.conformance.lab.explain import listed
from tidegate.errors import InstallationError

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_DEADLINE_S = 120
_ENOUGH = 500
_SETTINGS: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.log.level": "OFF",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    # Such a Spark lives for seconds, in which the second compiler costs more than it saves.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


def shared_session(settings: Mapping[str, str] = {}) -> SparkSession:
    """Return the session of this process; without one, start one on two cores that ends with the process.

    settings: those of a new session, beside the kit's.
    """
    try:
        return SparkSession.active()
    except PySparkRuntimeError:
        return _started({**_SETTINGS, **settings})


def _configured(settings: Mapping[str, str]) -> SparkSession:
    """Start a session for the kit: fast, quiet, and without ports or files that others may use.

    Raises InstallationError if Spark finds no Java that it can start.
    """
    builder = SparkSession.builder.master("local[2]").appName("tidegate conformance")
    for name, value in {**session_conf(), **settings}.items():
        builder = builder.config(name, value)
    try:
        return builder.getOrCreate()
    except PySparkRuntimeError as error:
        if error.getCondition() != "JAVA_GATEWAY_EXITED":
            raise
        found = os.environ.get("JAVA_HOME") or "none; the PATH's java counts"
        raise InstallationError(
            f"Spark's Java does not start: Java 17 or newer is needed (JAVA_HOME is {found})"
        ) from None


def _started(settings: Mapping[str, str]) -> SparkSession:
    # Python workers inherit Java's environment.  Connectors are often on a path that only this process has, such as
    # pytest's.
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(path or os.curdir for path in sys.path)
    try:
        session = _configured(settings)
    finally:
        del os.environ["PYTHONPATH"]
        if before is not None:
            os.environ["PYTHONPATH"] = before
    atexit.register(session.stop)
    return session


@dataclass(frozen=True, slots=True)
class SparkBatch:
    """The rows of one call of foreachBatch.

    number: the batch's id; a repeated batch has the same.
    again: the same, by a second action on the batch.
    """

    number: int
    keys: list[str]
    again: list[str]


class SparkStream:
    """One stream, read once or twice a batch.  The last reading counts, as in a sink that knows batch ids.

    load: loads the stream, at each run.
    keys: reads a batch, and returns a text for each row.
    between: called within each batch, after its first reading.
    """

    def __init__(
        self,
        lab: BaseLab,
        load: Callable[[], DataFrame],
        keys: Callable[[DataFrame], list[str]],
        *,
        twice: bool = False,
    ) -> None:
        self.lab, self._load, self._keys, self._twice = lab, load, keys, twice
        folder = tempfile.TemporaryDirectory(prefix="tidegate-conformance-", ignore_cleanup_errors=True)
        lab.at_close(folder.cleanup)
        self.checkpoint = Path(folder.name)
        self.batches: list[SparkBatch] = []
        self.between: Callable[[], object] = lambda: None

    def run(self) -> list[SparkBatch]:
        """Read all present rows (Trigger.AvailableNow), and return the batches of this run."""
        before = len(self.batches)
        self.lab.tell("start the stream with Trigger.AvailableNow")
        query = self._start()
        try:
            with self._reporting():
                ended = query.awaitTermination(int(_DEADLINE_S * slowness()))
            self.lab.expect(ended, f"a stream with Trigger.AvailableNow did not end within {_DEADLINE_S} s")
        finally:
            query.stop()
        return self.batches[before:]

    def failure(self) -> str | None:
        """Read all present rows, and return Spark's error."""
        try:
            self.run()
        except ConformanceError as error:
            if isinstance(error.__cause__, PySparkException):
                return str(error.__cause__)
            raise
        return None

    def forget_last_commit(self) -> int:
        """Undo the commit of the last batch in the checkpoint, and return its number."""
        last = self._log("commits")[-1]
        self.lab.tell(f"forget that batch {last.name} was committed")
        last.unlink()
        last.with_name(f".{last.name}.crc").unlink(missing_ok=True)
        return _number(last)

    @property
    def offsets(self) -> list[str]:
        """The offset of each planned batch, as the checkpoint has it."""
        return [path.read_text(encoding="utf-8").splitlines()[-1] for path in self._log("offsets")]

    def _log(self, name: str) -> list[Path]:
        """Return the files of a log of the checkpoint, in order."""
        return sorted((path for path in (self.checkpoint / name).iterdir() if path.name.isdecimal()), key=_number)

    @property
    def delivered(self) -> list[str]:
        """The keys of all rows, each batch by its last reading."""
        last = {batch.number: batch.keys for batch in list(self.batches)}
        return [key for _, keys in sorted(last.items()) for key in keys]

    def _start(self) -> StreamingQuery:
        with self._reporting():
            writer = (
                self._load().writeStream.foreachBatch(self._keep).option("checkpointLocation", str(self.checkpoint))
            )
            return writer.trigger(availableNow=True).start()

    def _keep(self, frame: DataFrame, number: int) -> None:
        keys = self._keys(frame)
        self.between()
        again = self._keys(frame) if self._twice else keys
        self.lab.tell(f"batch {number}: {listed(keys) or 'no rows'}")
        self.batches.append(SparkBatch(number, keys, again))

    @contextmanager
    def _reporting(self) -> Iterator[None]:
        try:
            yield
        except PySparkException as error:
            raise self.lab.fail(f"the stream ends with an error: {gist(error)}") from error


def gist(error: BaseException) -> str:
    """Return the text of an error of Spark; of a long one the begin and the end, which has the cause."""
    message = str(error).partition("\n=== Streaming Query ===")[0].strip()
    return message if len(message) <= 2 * _ENOUGH else f"{message[:_ENOUGH]} ... {message[-_ENOUGH:]}"


def _number(path: Path) -> int:
    return int(path.name)
