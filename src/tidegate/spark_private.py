"""All that tidegate uses of PySpark beyond its documented API, which may move in any release.

All of it is used here only, and ``tests/test_private_names.py`` checks it.  ``pyproject.toml`` admits only releases
that were tried.  Java's own classes (Catalyst) are used where they are needed, through :func:`java_of`.
"""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Callable, Sequence
from types import ModuleType, SimpleNamespace, TracebackType
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle
from pyspark.errors import PySparkRuntimeError
from pyspark.sql.pandas.functions import arrow_udf  # whose types PySpark shows only here
from pyspark.sql.pandas.types import from_arrow_schema, from_arrow_type, to_arrow_schema

if TYPE_CHECKING:
    from pyspark import SparkConf
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

_PLANNER = "pyspark.sql.streaming.python_streaming_source_runner"
_DRIVER_WORKER = "pyspark.sql.streaming.transform_with_state_driver_worker"
STATE_PARTITIONS = "spark.sql.streaming.internal.stateStore.partitions"
"""The setting with the number of shuffle partitions that the checkpoint of a query fixes.  Tasks see it."""
_MOST_FIELDS = 1_000_000
_WAITING = 32  # state calls: they and their answers have room in the buffers of a socket, or both sides would wait


def java_of(spark: SparkSession) -> Any:
    """Return Java's classes, of a classic session."""
    return spark._jvm  # noqa: SLF001


def java_of_process() -> Any:
    """Return Java's classes, of this process; None: no Java runs."""
    from pyspark import SparkContext  # which a client of Spark Connect has not

    return SparkContext._jvm  # noqa: SLF001


def java_context(spark: SparkSession) -> Any:
    """Return Java's JavaSparkContext; None: it was stopped."""
    return spark.sparkContext._jsc  # noqa: SLF001


def java_session(spark: SparkSession) -> Any:
    """Return Java's SparkSession."""
    return spark._jsparkSession  # noqa: SLF001


def analyzed_plan(rows: DataFrame) -> Any:
    """Return Catalyst's analyzed plan of a DataFrame."""
    return rows._jdf.queryExecution().analyzed()  # noqa: SLF001


def checkpoint_of(query: StreamingQuery) -> str | None:
    """Return the checkpoint of a query; None: it is a query of Spark Connect."""
    java = getattr(query, "_jsq", None)
    return None if java is None else str(java.streamingQuery().resolvedCheckpointRoot())


def plan_steps(query: StreamingQuery) -> list[str]:
    """Return Catalyst's analyzed steps of a classic query with its sink, each before those that it reads from.

    A plan of one batch may lack those that had nothing to do in it.
    """

    def steps(plan: Any) -> list[str]:
        inputs = plan.children()
        each = [step for at in range(inputs.size()) for step in steps(inputs.apply(at))]
        return [str(plan.simpleString(_MOST_FIELDS)), *each]

    return steps(query._jsq.streamingQuery().logicalPlan())  # noqa: SLF001


def setting(spark: SparkSession, name: str) -> str:
    """Return a setting of Spark as it reads it: without spaces around it, and in lower case."""
    return str(spark.conf.get(name)).strip().lower()


def is_classic(rows: DataFrame) -> bool:
    """Return whether a DataFrame is of a classic session, and not of Spark Connect."""
    from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

    return isinstance(rows, ClassicDataFrame)


def is_remote() -> bool:
    """Return whether a session of Spark Connect runs, or PySpark is only a client of it."""
    from pyspark.sql import utils

    return utils.is_remote()


def before_stop(spark: SparkSession, action: Callable[[], object]) -> None:
    """Let a session of Spark Connect do something whenever it is stopped, while it can still reach the server.

    It has no hook of its own for that.
    """
    stop = spark.stop

    def act_and_stop() -> None:
        action()
        stop()

    spark.stop = act_and_stop  # type: ignore[method-assign]


def silence_java_bridge() -> None:
    """Let Py4J log nothing more.  Called as this process ends.

    Java may also be about to end: then it calls no listener, and an error would not help.
    """
    logging.getLogger("py4j").setLevel(logging.CRITICAL + 1)


def launch_java(conf: SparkConf, popen: dict[str, Any]) -> Any:
    """Start Java for a SparkContext, and return the gateway to it."""
    from pyspark.java_gateway import launch_gateway

    return launch_gateway(conf, popen)  # type: ignore[no-untyped-call]


def worker_daemon() -> ModuleType:
    """Return the module that forks Python workers, with ``gc``, ``traceback`` and ``manager``."""
    from pyspark import daemon

    return daemon


def _print_exc() -> None:
    if not isinstance(sys.exc_info()[1], ConnectionError):  # nobody is there to take the task's end
        traceback.print_exc()


def _print_uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    cause: BaseException | None = error
    while isinstance(cause, ConnectionError | EOFError):  # of the connection to Java
        cause = cause.__context__
    if cause is not None:
        sys.__excepthook__(kind, error, trace)


QUIET_TRACEBACK = SimpleNamespace(print_exc=_print_exc, format_exc=traceback.format_exc)
"""What PySpark's daemon uses of the module ``traceback``."""


def end_quietly() -> None:
    """Make this process quiet, if it is a worker of PySpark's own daemon, or plans a stream.

    Java closes the connection of a worker when the session ends, when the worker was idle for a minute, and when a task
    needs no more rows.  PySpark's daemon then prints a BrokenPipeError for each worker.  A planner may print one
    between the stop of its stream and its own end.

    Called whenever such a process gets a source, so that a worker's first task is also quiet.  Spark plans batch
    queries in workers of that daemon, whatever ``spark.python.daemon.module`` is.
    """
    if (main := _main_of("pyspark.daemon")) is not None:
        main.traceback = QUIET_TRACEBACK
    if _main_of(_PLANNER) is not None:
        sys.excepthook = _print_uncaught


def print_nothing() -> None:
    """Make this process quiet, if Spark runs it on the driver for a stateful processor.

    PySpark's worker prints each of its steps, and Spark passes that on as errors.
    """
    if (main := _main_of(_DRIVER_WORKER)) is not None:
        main.print = lambda *_: None


def _main_of(module: str) -> Any:
    """Return the module that this process runs, if it is this one."""
    main = sys.modules["__main__"]
    return main if getattr(main.__spec__, "name", None) == module else None


def state_answers(handle: StatefulProcessorHandle, calls: Sequence[Callable[[], object]]) -> list[Any]:
    """Make state calls, and return the row that answers each; None: a value that is not there, or a call to write.

    PySpark waits for an answer before the next call.  Here calls are sent one after the other, and wait together.

    calls: ``getValue``, ``updateValue`` and ``removeKey`` of a MapState, or ``registerTimer`` and ``deleteTimer``.

    Raises PySparkRuntimeError for a call that failed.
    """
    client: Any = handle._statefulProcessorApiClient  # noqa: SLF001
    rows = []
    for begin in range(0, len(calls), _WAITING):
        some = calls[begin : begin + _WAITING]
        client._receive_proto_message = lambda: (0, "", b"")  # noqa: SLF001
        try:
            for call in some:
                call()
        finally:
            del client._receive_proto_message  # noqa: SLF001
        for _ in some:
            status, error, value = client._receive_proto_message()  # noqa: SLF001
            if status:
                raise PySparkRuntimeError(error)
            rows.append(client._deserialize_from_bytes(value) if value else None)  # noqa: SLF001
    return rows
