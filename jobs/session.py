"""A Spark session for one job: quiet, and gone with it."""

from __future__ import annotations

import logging
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate.errors import ServerError, TidegateError
from tidegate.jobs.failures import cause, is_lost_java, lost_java_forgiven
from tidegate.servers.java import find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["ends_on_signals", "spark_session"]

_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",  # times are windowed and shown alike wherever the job runs
}


@contextmanager
def spark_session(
    master: str, name: str, log: Path, settings: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """Start Spark, and stop it at the end.

    log: the file that takes what Spark and its workers write to stderr; it is appended to.
    settings: Spark's, on top of ours.

    Raises ServerError without Java 17, or for a master that is none.  What fails inside because of
    a TidegateError in one of Spark's processes ends as that error; what fails because Spark's Java
    process has died, as ServerError.
    """
    find_java()
    from py4j.protocol import Py4JJavaError
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    conf = SparkConf().setMaster(master).setAppName(name).setAll(list({**_SETTINGS, **(settings or {})}.items()))
    with log.open("ab") as stderr:
        try:
            gateway = launch_gateway(conf, {"stderr": stderr})  # type: ignore[no-untyped-call]
            context = SparkContext(conf=conf, gateway=gateway)
        except (PySparkRuntimeError, Py4JJavaError) as error:
            raise ServerError(f"Spark did not start with the master {master!r}; {log} says why") from error
    spark = SparkSession(context)
    try:
        with ends_on_signals():  # Spark has put a handler of its own in the place of ours
            yield spark
    except Exception as error:
        if is_lost_java(error) or gateway.proc.poll() is not None:
            raise ServerError(f"Spark's Java process has died; {log} may say why") from None
        known = None if isinstance(error, TidegateError) else cause(error)
        if known is None:
            raise
        raise known from None
    finally:
        with lost_java_forgiven():
            spark.stop()


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    return Path(record.pathname).parent.name != "py4j"


@contextmanager
def ends_on_signals() -> Iterator[None]:
    """Let SIGINT and SIGTERM raise KeyboardInterrupt, also where a shell has SIGINT ignored.

    Its argument is the signal.  py4j, which logs a stack where it is interrupted, is kept quiet.
    """

    def interrupt(number: int, _: Any) -> None:
        raise KeyboardInterrupt(signal.Signals(number))

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    logging.getLogger().addFilter(_is_not_of_py4j)
    try:
        yield
    finally:
        logging.getLogger().removeFilter(_is_not_of_py4j)
        for number, handler in before.items():
            signal.signal(number, handler)
