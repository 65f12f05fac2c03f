"""The Spark session that rules share: the existing one, or one that the kit starts and stops."""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Mapping

from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from tidegate.errors import InstallationError
from tidegate.sources.session.settings import session_conf

_SETTINGS: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.log.level": "OFF",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    # Such a Spark lives for seconds, in which the second compiler costs more than it saves.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


def shared_session() -> SparkSession:
    """Return the session of this process; without one, start one on two cores that ends with the process."""
    try:
        return SparkSession.active()
    except PySparkRuntimeError:
        return _started()


def _configured() -> SparkSession:
    """Start a session for the kit: fast, quiet, and without ports or files that others may use.

    Raises InstallationError if Spark finds no Java that it can start.
    """
    builder = SparkSession.builder.master("local[2]").appName("tidegate conformance")
    for name, value in {**session_conf(), **_SETTINGS}.items():
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


def _started() -> SparkSession:
    # Python workers inherit Java's environment.  Connectors are often on a path that only this process has, such as
    # pytest's.
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(path or os.curdir for path in sys.path)
    try:
        session = _configured()
    finally:
        del os.environ["PYTHONPATH"]
        if before is not None:
            os.environ["PYTHONPATH"] = before
    atexit.register(session.stop)
    return session
