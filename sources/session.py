"""Registers sources with a Spark session, and prepares the session: settings that make Python data sources faster."""

from __future__ import annotations

import logging
import os
import sys
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from tidegate.errors import InstallationError, OptionError
from tidegate.readers.models import without_jars
from tidegate.sources.bridge import Driver, data_source_class
from tidegate.sources.contract import SourceContract
from tidegate.sources.environments import require_planner
from tidegate.sources.progress.listener import listen_to_batches
from tidegate.sources.progress.query import check_session
from tidegate.spark_private import is_remote, java_context, java_of, java_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource

    from tidegate.sources.contract import SourceContract

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
_SHORT_FOLDER = "/tmp"  # noqa: S108 - a socket's path has room for 104 bytes, and YARN's temporary folder alone is longer
_hinted = False


def session_conf(*, worker_daemon: bool = False) -> dict[str, bool | float | int | str | None]:
    """Return settings for ``SparkSession.builder.config(map=...)`` that suit streams of a Python program.

    ``spark.ui.showConsoleProgress``: no progress bars, which Spark would draw into the output of a program.

    ``spark.python.unix.domain.socket.enabled``: the rows of a small task come from Python at once.  Over TCP
    they wait 40 ms for a delayed acknowledgement.

    ``spark.python.unix.domain.socket.dir``: ``/tmp``, if this process can write there.  Java's temporary folder has too
    long a path on YARN, so that neither driver nor workers would start.  For another folder, set it on the builder
    after these settings, which count more than ``--conf``.

    ``spark.sql.streaming.stopActiveRunOnRestart``: a query whose checkpoint is in use by an active query ends with an
    error.  Otherwise Spark would end the older query, which then looks as if it were done.

    worker_daemon: also ``spark.python.daemon.module``: the garbage collection after each task of a worker leaves out
        imported modules.  Readers of tidegate do that anyway; this is for other Python code, such as pandas functions.
        And a worker prints no stack trace when Spark closes its connection.  The workers' Python, such as
        ``spark.pyspark.python``, must have tidegate, or no task begins.

    ``docs/operations.md`` has the gain of sockets and daemon.  Spark reads them when executors begin, so a running
    session cannot take them.  But with a local master ``register`` sets both.  Windows has neither such sockets nor the
    daemon.

    A client of Spark Connect can set only ``stopActiveRunOnRestart``.  The others are left out if SPARK_REMOTE is set,
    if PySpark is only a client, or if a remote session runs.
    """
    if "SPARK_REMOTE" in os.environ or is_remote():
        return dict(_KEEP_THE_OLDER)
    if sys.platform == "win32":
        return {**_NO_BARS, **_KEEP_THE_OLDER}
    daemon = {_DAEMON: _OUR_DAEMON} if worker_daemon else {}
    folder = {_SOCKET_FOLDER: _SHORT_FOLDER} if _is_writable(_SHORT_FOLDER) else {}
    return {**_NO_BARS, **_KEEP_THE_OLDER, _UNIX_SOCKETS: "true", **folder, **daemon}


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
        folder = str(spark.conf.get(_SOCKET_FOLDER, None) or _SHORT_FOLDER)
        if _UNIX_SOCKETS in missing and _is_writable(folder):
            conf.set(_UNIX_SOCKETS, "true")
            conf.set(_SOCKET_FOLDER, folder)
    elif _UNIX_SOCKETS in missing and not _hinted:
        _hinted = True
        place = (
            "where the server of Spark Connect starts"
            if is_remote()
            else "where Spark begins, such as by SparkSession.builder.config(map=tidegate.session_conf())"
        )
        _LOG.warning(
            "streams are quicker if %s is true and %s is %s; set both %s",
            *(_UNIX_SOCKETS, _SOCKET_FOLDER, _SHORT_FOLDER, place),
        )


def _is_writable(folder: str) -> bool:
    return os.access(folder, os.W_OK | os.X_OK)


def redact_secrets(spark: SparkSession) -> None:
    """Let Spark hide the values of all secret options in plans, beside those that it hides already."""
    hidden = spark.conf.get(_REDACTED_OPTIONS) or ""  # Spark's own value hides URLs
    if _HIDDEN_TOO not in hidden:
        spark.conf.set(_REDACTED_OPTIONS, f"{hidden}|{_HIDDEN_TOO}" if hidden else _HIDDEN_TOO)


def register_source(spark: SparkSession, source: SourceContract) -> str:
    """Register one configured source under a unique name, and return the name.

    The registered class holds the source by value, not in options.
    """
    driver = prepare(spark)
    name = f"tidegate_{source.connector}_{uuid.uuid4().hex[:12]}"
    _register(spark, [data_source_class(name, partial(_itself, source), driver)])
    return name


def _register(spark: SparkSession, classes: Iterable[type[DataSource]]) -> None:
    with _without_unix_sockets(spark), _active(spark):
        for data_source in classes:
            spark.dataSource.register(data_source)


@contextmanager
def _active(spark: SparkSession) -> Iterator[None]:
    """Let Spark take a session for the active one meanwhile: it refuses names that the active one has registered."""
    if getattr(spark, "sparkContext", None) is None:
        yield
        return
    sessions = java_of(spark).org.apache.spark.sql.classic.SparkSession
    before = sessions.getActiveSession()
    sessions.setActiveSession(java_session(spark))
    try:
        yield
    finally:
        sessions.setActiveSession(before.get()) if before.isDefined() else sessions.clearActiveSession()


@contextmanager
def _without_unix_sockets(spark: SparkSession) -> Iterator[None]:
    """Let Spark start Python workers over TCP meanwhile.

    The first registration of a session starts a worker that looks for other data sources, in the Python of the PATH and
    under PySpark's own daemon.  After an idle minute Spark closes its connection.  Over a Unix socket the daemon then
    prints a BrokenPipeError.
    """
    if getattr(spark, "sparkContext", None) is None:
        yield
        return
    conf = java_context(spark).sc().conf()
    before = conf.get(_UNIX_SOCKETS, "false")
    conf.set(_UNIX_SOCKETS, "false")
    try:
        yield
    finally:
        conf.set(_UNIX_SOCKETS, before)


def _itself(source: SourceContract, options: Mapping[str, str]) -> SourceContract:  # noqa: ARG001 - other sources are built from them
    return source


def prepare(spark: SparkSession) -> Driver:
    """Return the facts of the session that planners need.

    Raises InstallationError if a planner could not run, and OptionError for anything but a session.
    """
    check_session(spark)
    context = getattr(spark, "sparkContext", None)
    is_local = context is not None and str(context.master).startswith("local")
    set_up_workers(spark, is_local=is_local)
    if context is None:
        # With Spark Connect the driver is another process, where our listener cannot leave notes for planners.
        return Driver(_parallelism(spark), str(spark.conf.get("spark.app.id")), *_address(spark))
    if is_local:
        # Python workers would take the python3 of the PATH, which may be another one (trap).
        context.pythonExec = sys.executable
    else:
        require_planner(context.pythonExec)
    application_id = str(context.applicationId)
    listen_to_batches(spark, application_id)
    return Driver(context.defaultParallelism, application_id, *(() if is_local else _address(spark)))


def _address(spark: SparkSession) -> tuple[str, str | None]:
    """Return by which name executors reach the driver's machine, and where to listen."""
    return str(spark.conf.get("spark.driver.host", "127.0.0.1")), spark.conf.get("spark.driver.bindAddress", None)


def _parallelism(spark: SparkSession) -> int:
    """Return how many tasks run at once: the partitions of a range by Spark's defaults."""
    return max(1, spark.range(1 << 16).selectExpr("spark_partition_id()").distinct().count())


_LOG = logging.getLogger("tidegate")
_CONNECTORS = "tidegate.connectors"


def register(spark: SparkSession, *others: type[SourceContract]) -> None:
    """Register the connectors of all installed packages with the session, such as ``tidegate_kafka``.

    A package names its connectors by entry points of the group ``tidegate.connectors``.  One that cannot be imported or
    has no name is left out, with a warning.  Of two connectors with one name the last counts, also with a warning.

    others: connectors of your own that no package installs.

    Raises OptionError for anything but the class of a source, and InstallationError if no connector is installed.

    Call it once per session.  On a local master the Python workers then also run this interpreter.  Plans of the
    session hide the values of secret options (``spark.sql.redaction.options.regex``).
    """
    for source in others:
        _check_class(source)
    driver = prepare(spark)
    redact_secrets(spark)
    connectors: dict[str, type[SourceContract]] = {}
    for name, source in [*_installed(), *((source.data_source_name(), source) for source in others)]:
        replaced = connectors.get(name.lower(), source)  # Spark ignores case
        if replaced is not source:
            _LOG.warning("two connectors are called %r: %s is used, and not %s", name, _path(source), _path(replaced))
        connectors[name.lower()] = source
    classes = (data_source_class(s.data_source_name(), s.from_options, driver) for s in connectors.values())
    _register(spark, classes)


def _installed() -> list[tuple[str, type[SourceContract]]]:
    """Return the connectors of installed packages, with the names of their data sources."""
    with without_jars():
        points = entry_points(group=_CONNECTORS)
    loaded = map(_loaded, sorted(points))
    found = [connector for connector in loaded if connector is not None]
    if not found:
        raise InstallationError(
            "no connector is installed, not even those of tidegate: install tidegate with pip, because a folder on the "
            "path does not name its connectors"
        )
    return found


def _loaded(point: EntryPoint) -> tuple[str, type[SourceContract]] | None:
    try:
        source = point.load()
        _check_class(source)
        return str(source.data_source_name()), source
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a broken package must not take the others with it
        _LOG.warning(
            "the connector %s of %s is left out: %s", point.name, point.value, str(error) or type(error).__name__
        )
        return None


def _path(source: type[SourceContract]) -> str:
    return f"{source.__module__}.{source.__qualname__}"


def _check_class(source: object) -> None:
    if isinstance(source, SourceContract):
        name = type(source).__name__
        raise OptionError(f"register() takes the class {name}; a source of it needs no name: use its read_stream()")
    if not (isinstance(source, type) and issubclass(source, SourceContract)):
        raise OptionError(f"register() takes classes of sources, and {source!r} is not one")
    lacks = [*([] if hasattr(source, "connector") else ["connector"]), *sorted(source.__abstractmethods__)]
    if lacks:
        raise OptionError(f"register() takes classes of sources, and {source.__name__} lacks {', '.join(lacks)}")
