"""Finds Java, and the jars of an installed PySpark.

This module neither imports PySpark nor starts Spark.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from tidegate.errors import ServerError

OLDEST_JAVA = 17  # Spark 4 and Kafka 4 need the same version


def find_java() -> str:
    """Return the path of the ``java`` that Spark would start: that of ``JAVA_HOME``, or else that of the ``PATH``.

    Raises ServerError if there is none, or if it is older than Java 17.
    """
    home = os.environ.get("JAVA_HOME")
    executable = shutil.which("java", path=Path(home, "bin")) if home else shutil.which("java")
    if executable is None:
        where = f"JAVA_HOME={home} holds no bin/java" if home else "JAVA_HOME is unset and the PATH holds no java"
        raise ServerError(f"Java {OLDEST_JAVA} or newer is needed, as for Spark, but {where}")
    version = _major_version(executable)
    if version < OLDEST_JAVA:
        raise ServerError(f"Java {OLDEST_JAVA} or newer is needed, as for Spark, but {executable} is Java {version}")
    return executable


def java_command(temporary: Path) -> list[str]:
    """Return the start of a command line for a Java program that may be killed at any time."""
    return [find_java(), "-XX:-UsePerfData", f"-Djava.io.tmpdir={temporary}"]


@lru_cache
def _major_version(java: str) -> int:
    banner = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    match = re.search(r'version "(?:1\.)?(\d+)', banner)
    if match is None:
        raise ServerError(f"{java} does not report its version: {banner.strip()!r}")
    return int(match[1])


def spark_jars(*patterns: str) -> list[Path]:
    """Return the jars of the installed PySpark whose file names match one of the patterns.

    Raises ServerError if PySpark is missing, or has no jar for one of the patterns.
    """
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ServerError("PySpark is needed for its jars, but it is not installed")
    folder = Path(spec.origin).parent / "jars"
    jars: list[Path] = []
    for pattern in patterns:
        matches = sorted(folder.glob(pattern))
        if not matches:
            raise ServerError(f"PySpark's folder {folder} holds no {pattern}")
        jars += matches
    return jars
