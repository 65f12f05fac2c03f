"""Spark in a command: a quiet session that ends with it, a query followed batch by batch, the line of its progress."""

from __future__ import annotations

import logging
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.text import Text

from tidegate import errors
from tidegate.errors import ServerError, TidegateError
from tidegate.servers.java import find_java
from tidegate.sources.progress.query import QueryProgress
from tidegate.sources.session import session_conf

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery

_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.sql.session.timeZone": "UTC",  # windows and displayed times are the same on every machine
    "spark.sql.streaming.numRecentProgressUpdates": "1000",  # a follower of a query may wait for a full terminal
}

_RAISED = re.compile(r"tidegate\.errors\.(?P<kind>[A-Za-z]+): (?P<sentence>[^\n]+)")
_ENDING = (signal.SIGINT, signal.SIGTERM)


def cause(error: BaseException) -> errors.TidegateError | None:
    """Return the TidegateError that made Spark raise ``error``, if one did.

    It was raised in another process, so only its text inside Spark's error is left.
    """
    match = _RAISED.search(str(error))
    if match is None:
        return None
    kind = getattr(errors, match["kind"], None)
    if not (isinstance(kind, type) and issubclass(kind, errors.TidegateError)):
        return None
    return kind(match["sentence"].strip())


def is_lost_java(error: BaseException) -> bool:
    """Return whether PySpark raised ``error`` because Spark's Java process is gone."""
    from py4j.protocol import Py4JError, Py4JNetworkError

    # If Java dies during a call, the error of the call has nothing from Java.
    was_cut = type(error) is Py4JError and "Trace:" not in str(error)
    return was_cut or isinstance(error, Py4JNetworkError | ConnectionError)


@contextmanager
def lost_java_forgiven() -> Iterator[None]:
    """Ignore a clean-up's error if Java is gone, so that it does not hide the first error."""
    try:
        yield
    except Exception as error:
        if not is_lost_java(error):
            raise


@contextmanager
def spark_session(
    master: str, name: str, log: Path, settings: Mapping[str, str] | None = None, holding: Sequence[int] = ()
) -> Iterator[SparkSession]:
    """Start Spark, and stop it at the end.

    log: the file to which the stderr of Spark and its workers is appended.
    holding: the descriptors that Java keeps open, such as that of a lock: it may live longer than this process.

    Raises ServerError without Java 17, or for an invalid master.  An error inside the block that comes from a
    TidegateError in one of Spark's processes becomes that error.  An error because Spark's Java process has died
    becomes ServerError.  An error after an interrupt becomes that KeyboardInterrupt.
    """
    find_java()
    with _quiet_py4j():
        spark, java = _start(master, name, log, settings or {}, holding)
        try:
            with ends_on_signals():  # Spark has replaced our handler by its own
                yield spark
        except Exception as error:
            if interrupt := _interrupted_by(error):
                raise interrupt from None
            if is_lost_java(error) or java.poll() is not None:
                raise ServerError(f"Spark's Java process has died; {log} may say why") from None
            raised = None if isinstance(error, TidegateError) else cause(error)
            if raised is None:
                raise
            raise raised from None
        finally:
            with lost_java_forgiven():
                spark.stop()


def _start(
    master: str, name: str, log: Path, settings: Mapping[str, str], holding: Sequence[int]
) -> tuple[SparkSession, subprocess.Popen[bytes]]:
    from py4j.protocol import Py4JJavaError
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    from tidegate.spark_private import launch_java

    conf = (
        SparkConf()
        .setMaster(master)
        .setAppName(name)
        .setAll([(option, str(value)) for option, value in {**session_conf(), **_SETTINGS, **settings}.items()])
    )
    with log.open("ab") as stderr:
        try:
            with _signals_held_back():
                gateway = launch_java(conf, {"stderr": stderr, "pass_fds": holding})
            context = SparkContext(conf=conf, gateway=gateway)
        except (PySparkRuntimeError, Py4JJavaError) as error:
            raise ServerError(f"Spark did not start with the master {master!r}; {log} says why") from error
    return SparkSession(context), gateway.proc


@contextmanager
def _signals_held_back() -> Iterator[None]:
    """Let SIGINT and SIGTERM act only at the end of the block.

    PySpark removes the file through which Java answers if it is interrupted meanwhile, and Java would run forever.
    """
    received: list[int] = []
    try:
        with _handling(lambda number, _: received.append(number)):
            yield
    finally:
        for ending in received:
            signal.raise_signal(ending)


def _interrupted_by(error: BaseException) -> KeyboardInterrupt | None:
    """Return the interrupt that ``error`` hides.

    PySpark calls Java in the ``__exit__`` of its own contexts, and Java may be gone by then.
    """
    behind = error.__context__
    while behind is not None and not isinstance(behind, KeyboardInterrupt):
        behind = behind.__context__
    return behind


@contextmanager
def _quiet_py4j() -> Iterator[None]:
    """Keep py4j from logging a stack trace at an interrupt, in its own loggers and the root's."""

    def is_of_others(record: logging.LogRecord) -> bool:
        return Path(record.pathname).parent.name != "py4j"

    root, own = logging.getLogger(), logging.getLogger("py4j")
    level = own.level
    root.addFilter(is_of_others)
    own.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        root.removeFilter(is_of_others)
        own.setLevel(level)


@contextmanager
def ends_on_signals() -> Iterator[None]:
    """Let SIGINT and SIGTERM raise KeyboardInterrupt, even if the shell ignores SIGINT.

    The argument of the KeyboardInterrupt is the signal.
    """

    def interrupt(number: int, _: Any) -> None:
        raise KeyboardInterrupt(signal.Signals(number))

    with _handling(interrupt):
        yield


@contextmanager
def _handling(handler: Callable[[int, Any], None]) -> Iterator[None]:
    """Handle SIGINT and SIGTERM in the block."""
    before = {number: signal.signal(number, handler) for number in _ENDING}
    try:
        yield
    finally:
        for number, handled in before.items():
            signal.signal(number, handled)


_LOOK_EVERY_S = 0.5


def follow(query: StreamingQuery) -> Iterator[QueryProgress]:
    """Yield each batch of a query when it is done, until the query ends.

    Batches that Spark forgot before the caller asked for the next one are left out: their numbers are missing.

    Raises the error of the query.  If the caller stops iterating first, the query is stopped.
    """
    is_active, shown = True, -1
    try:
        while is_active:
            is_active = query.isActive  # before its progress, so that none is missed
            for progress in _after(query, shown):
                if progress.batchId > shown and (batch := QueryProgress.parse(progress.json)).ran:
                    shown = batch.number
                    yield batch
            if is_active:
                time.sleep(_LOOK_EVERY_S)  # a listener would get each progress in a thread of its own
        query.awaitTermination()
    finally:
        with lost_java_forgiven():
            query.stop()


def _after(query: StreamingQuery, shown: int) -> Sequence[StreamingQueryProgress]:
    """Return the latest progress of a query, and the kept ones before it only if some of them may be new."""
    last = query.lastProgress
    if last is None or last.batchId <= shown:
        return []
    return [last] if last.batchId == shown + 1 else query.recentProgress


@contextmanager
def saying() -> Iterator[Callable[[str], None]]:
    """Yield what shows a line on stderr: on a terminal in place of the one before."""
    errors = Console(stderr=True)
    if not errors.is_terminal:
        yield partial(typer.echo, err=True)
        return
    with errors.status("") as status:
        yield lambda line: status.update(Text(line))
