"""Checks that the Python environments of driver and executors have the same version of tidegate.

Spark sends a source to its other processes as a pickle, which names the modules that it needs.  A process without them
would end with forty lines of stack trace, so the pickle begins with a function that is sent as code and needs no
modules.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from tidegate.errors import InstallationError
from tidegate.spark_private import cloudpickle
from tidegate.version import __version__

_PROBE = "import tidegate; print(tidegate.__version__)"
_PROBE_S = 60


def pickled(instance: object) -> tuple[Callable[[bytes], object], tuple[bytes]]:
    """Return the value of ``__reduce__``, by which another process of Spark rebuilds an object (pickle, cloudpickle).

    The other process raises ImportError, in one sentence, if it lacks a module or has another version of tidegate.
    """
    return _loader(__version__), (cloudpickle.dumps((type(instance), instance.__dict__)),)  # type: ignore[no-untyped-call]


def _loader(version: str) -> Callable[[bytes], object]:
    """Return a function that cloudpickle sends as code, because it is defined inside another one."""

    def load(data: bytes) -> Any:
        import os
        import pickle
        import platform
        import sys

        def failed(reason: str) -> ImportError:
            os.environ["SPARK_HIDE_TRACEBACK"] = "1"
            return ImportError(f"{sys.executable} on {platform.node()}, which Spark runs for this query, {reason}")

        try:
            from tidegate.version import __version__ as there
        except ImportError as error:
            raise failed(
                f"cannot import tidegate: {error}; it needs tidegate {version} with its dependencies (docs/deploy.md)"
            ) from None
        if there != version:
            raise failed(f"has tidegate {there}, but the driver has {version}; install the driver's version there")
        try:
            made_of, state = pickle.loads(data)  # noqa: S301 - what pickled() made
        except ModuleNotFoundError as error:
            raise failed(
                f"cannot load the source: {error}; it needs the modules that the driver has, also those of your own "
                "connectors (docs/deploy.md)"
            ) from None
        from tidegate.spark_private import end_quietly

        end_quietly()
        instance = object.__new__(made_of)
        instance.__dict__.update(state)
        return instance

    return load


@lru_cache
def require_planner(python: str) -> None:
    """Check that the Python of Spark's workers can also plan on the driver, where Spark starts it.

    It is started once, imports tidegate, and ends.

    python: PySpark's ``SparkContext.pythonExec``, relative to the folder of the driver.

    Raises InstallationError if it is missing, or has no tidegate, or another version.
    """
    begin = f"Spark also runs the Python of PYSPARK_PYTHON, {python!r}, on the driver"
    advice = f"set PYSPARK_PYTHON to a Python with tidegate {__version__} that the driver and all executors have there"
    try:
        answer = subprocess.run(
            [python, "-c", _PROBE],
            stdin=subprocess.DEVNULL,  # a wrapper may read the program's input
            capture_output=True,
            text=True,
            timeout=_PROBE_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise InstallationError(f"{begin}, where it did not import tidegate within {_PROBE_S} s; {advice}") from None
    except OSError as error:
        raise InstallationError(f"{begin}, where it cannot be started: {error.strerror}; {advice}") from error
    if answer.returncode:
        reason = (answer.stderr.strip().splitlines() or [f"exit code {answer.returncode}"])[-1]
        raise InstallationError(f"{begin}, where it cannot import tidegate: {reason}; {advice}")
    if answer.stdout.strip() != __version__:
        raise InstallationError(f"{begin}, where it has tidegate {answer.stdout.strip()}; {advice}")
