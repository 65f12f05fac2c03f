"""Settings of Spark that make Python data sources faster."""

from __future__ import annotations

import logging
import os
import sys
from typing import TYPE_CHECKING

from tidegate.spark_private import is_remote, java_context, java_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_LOG = logging.getLogger("tidegate")
_UNIX_SOCKETS = "spark.python.unix.domain.socket.enabled"
_SOCKET_FOLDER = "spark.python.unix.domain.socket.dir"
_DAEMON = "spark.python.daemon.module"
_OUR_DAEMON = "tidegate.sources.worker_daemon"
_NO_BARS: dict[str, bool | float | int | str | None] = {"spark.ui.showConsoleProgress": "false"}
_KEEP_THE_OLDER = {"spark.sql.streaming.stopActiveRunOnRestart": "false"}
_REDACTED_OPTIONS = "spark.sql.redaction.options.regex"
_HIDDEN_TOO = r"(?i:basic\.auth\.user\.info|keystore\.key|jaas\.config)"
"""Secret options whose names Spark's own ``spark.redaction.regex`` does not find."""
_LONGEST_FOLDER = 60  # bytes: the path of a socket has at most 104 (macOS), and its name takes 43 of them
_hinted = False


def session_conf(*, worker_daemon: bool = False) -> dict[str, bool | float | int | str | None]:
    """Return settings for ``SparkSession.builder.config(map=...)`` that suit streams of a Python program.

    ``spark.ui.showConsoleProgress``: no progress bars, which Spark would draw into the output of a program.

    ``spark.python.unix.domain.socket.enabled``: the rows of a small task come from Python at once.  Over TCP
    they wait 40 ms for a delayed acknowledgement.

    ``spark.sql.streaming.stopActiveRunOnRestart``: a query whose checkpoint is in use by an active query ends with an
    error.  Otherwise Spark would end the older query, which then looks as if it were done.

    worker_daemon: also ``spark.python.daemon.module``: the garbage collection after each task of a worker leaves out
        imported modules.  Readers of tidegate do that anyway; this is for other Python code, such as pandas functions.
        And a worker prints no stack trace when Spark closes its connection.  The workers' Python, such as
        ``spark.pyspark.python``, must have tidegate, or no task begins.

    ``benchmarks/README.md`` has the gain of sockets and daemon.  Spark reads them when executors begin, so a running
    session cannot take them.  But with a local master ``register`` sets both, the sockets if Java's temporary folder
    has a short path.  Windows has neither such sockets nor the daemon.

    A client of Spark Connect can set only ``stopActiveRunOnRestart``.  The others are left out if SPARK_REMOTE is set,
    if PySpark is only a client, or if a remote session runs.
    """
    if "SPARK_REMOTE" in os.environ or is_remote():
        return dict(_KEEP_THE_OLDER)
    if sys.platform == "win32":
        return {**_NO_BARS, **_KEEP_THE_OLDER}
    daemon = {_DAEMON: _OUR_DAEMON} if worker_daemon else {}
    return {**_NO_BARS, **_KEEP_THE_OLDER, _UNIX_SOCKETS: "true", **daemon}


def set_up_workers(spark: SparkSession, *, is_local: bool) -> None:
    """Apply the settings of ``session_conf`` that still work and are not set; otherwise log a hint once.

    is_local: the executor is in the driver's process, and has no Python worker before the first task that needs one.
        Its workers run this interpreter, which has tidegate.
    """
    global _hinted  # noqa: PLW0603 - once per process
    names = () if sys.platform == "win32" else (_DAEMON, _UNIX_SOCKETS)
    missing = [name for name in names if spark.conf.get(name, None) is None]
    if is_local:
        conf = java_context(spark).sc().conf()  # PySpark gives copies only
        if _DAEMON in missing:
            conf.set(_DAEMON, _OUR_DAEMON)
        if _UNIX_SOCKETS in missing and len(os.fsencode(_socket_folder(spark))) <= _LONGEST_FOLDER:
            conf.set(_UNIX_SOCKETS, "true")
    elif _UNIX_SOCKETS in missing and not _hinted:
        _hinted = True
        _LOG.warning(
            "streams are quicker if %s is true, which must be set where Spark begins, "
            "such as by SparkSession.builder.config(map=tidegate.session_conf())",
            _UNIX_SOCKETS,
        )


def redact_secrets(spark: SparkSession) -> None:
    """Let Spark hide the values of all secret options in plans, beside those that it hides already."""
    hidden = spark.conf.get(_REDACTED_OPTIONS) or ""  # Spark's own value hides URLs
    if _HIDDEN_TOO not in hidden:
        spark.conf.set(_REDACTED_OPTIONS, f"{hidden}|{_HIDDEN_TOO}" if hidden else _HIDDEN_TOO)


def _socket_folder(spark: SparkSession) -> str:
    """Return the folder of Unix sockets of Spark's Java, and that of Python workers."""
    java = java_of(spark).System
    return str(spark.conf.get(_SOCKET_FOLDER, None) or java.getProperty("java.io.tmpdir"))
