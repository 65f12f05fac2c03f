"""Settings of Spark that make Python data sources faster."""

from __future__ import annotations

import logging
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["session_conf", "use_unix_sockets"]

_LOG = logging.getLogger("tidegate")
_UNIX_SOCKETS = "spark.python.unix.domain.socket.enabled"
_SOCKET_FOLDER = "spark.python.unix.domain.socket.dir"
_DAEMON = "spark.python.daemon.module"
_NO_BARS: dict[str, bool | float | int | str | None] = {"spark.ui.showConsoleProgress": "false"}
_LONGEST_FOLDER = 60  # bytes: the path of a socket has at most 104 (macOS), and its name takes 43 of them
_hinted = False


def session_conf(*, worker_daemon: bool = False) -> dict[str, bool | float | int | str | None]:
    """Return settings for ``SparkSession.builder.config(map=...)`` that suit streams of a Python program.

    ``spark.ui.showConsoleProgress``: no progress bars, which Spark would draw into the output of a program.

    ``spark.python.unix.domain.socket.enabled``: the rows of a small task come from Python at once.  Over TCP
    they wait 40 ms for a delayed acknowledgement.

    worker_daemon: also ``spark.python.daemon.module``: the garbage collection after each task of a worker leaves out
        imported modules.  Readers of tidegate do that anyway; this is for other Python code, such as pandas functions.
        The workers' Python, such as ``spark.pyspark.python``, must have tidegate, or no task begins.

    ``benchmarks/README.md`` has the gain of the last two.  Spark reads them when executors begin, so a running session
    cannot take them.  But with a local master ``register`` sets the sockets, if Java's temporary folder has a short
    path.
    Windows has neither such sockets nor the daemon.
    """
    if sys.platform == "win32":
        return dict(_NO_BARS)
    daemon = {_DAEMON: "tidegate.sources.session.worker_daemon"} if worker_daemon else {}
    return {**_NO_BARS, _UNIX_SOCKETS: "true", **daemon}


def use_unix_sockets(spark: SparkSession, *, is_local: bool) -> None:
    """Apply the setting of ``session_conf`` if that still works; otherwise log a hint once.

    is_local: the executor is in the driver's process, and has no Python worker before the first task that needs one.
    """
    global _hinted  # noqa: PLW0603 - once per process
    if _UNIX_SOCKETS not in session_conf() or spark.conf.get(_UNIX_SOCKETS, None) is not None:
        return
    if is_local:
        if len(os.fsencode(_socket_folder(spark))) <= _LONGEST_FOLDER:
            spark.sparkContext._jsc.sc().conf().set(_UNIX_SOCKETS, "true")  # noqa: SLF001 - PySpark gives copies only
    elif not _hinted:
        _hinted = True
        _LOG.warning(
            "streams are quicker if %s is true, which must be set where Spark begins, "
            "such as by SparkSession.builder.config(map=tidegate.session_conf())",
            _UNIX_SOCKETS,
        )


def _socket_folder(spark: SparkSession) -> str:
    """Return the folder of Unix sockets of Spark's Java, and that of Python workers."""
    java = spark.sparkContext._jvm.System  # type: ignore[union-attr]  # noqa: SLF001 - only Java knows
    return str(spark.conf.get(_SOCKET_FOLDER, None) or java.getProperty("java.io.tmpdir"))
