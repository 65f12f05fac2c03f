"""The Dockerfile for a cluster takes the Spark that the lock has for the image's Python, and refuses any other."""

import os
import re
import subprocess

import pytest

import tidegate
from tests.support.pages import ROOT

DOCKERFILE = (ROOT / "examples/deploy/Dockerfile").read_text()

PYTHON = """#!/bin/sh
case $1 in
-c) echo 4.3.0 ;;
--version) echo Python 3.12.3 ;;
esac
"""


def default(name):
    return re.search(rf"^ARG {name}=(.+)$", DOCKERFILE, re.MULTILINE)[1]


@pytest.fixture
def install(tmp_path):
    """Return a function that runs the step of installation with a Python that pip gave PySpark 4.3.0."""
    step, _ = re.findall(r"^RUN (.+?[^\\])$", DOCKERFILE, re.MULTILINE | re.DOTALL)
    for folder in ("/opt/spark", "/tmp/tidegate"):  # noqa: S108 - replaced
        step = step.replace(folder, f"{tmp_path}{folder}")
        (tmp_path / folder[1:]).mkdir(parents=True)
    python = tmp_path / "bin/python3"
    python.parent.mkdir()
    python.write_text(PYTHON)
    python.chmod(0o755)
    own = tmp_path / "opt/spark/python/pyspark/version.py"
    own.parent.mkdir(parents=True)

    def run(spark):
        own.write_text(f'__version__: str = "{spark}"\n')
        path = f"{python.parent}:{os.environ['PATH']}"
        return subprocess.run(
            ["/bin/sh", "-c", step], env={"PATH": path}, capture_output=True, text=True, check=False, timeout=30
        )

    return run


def test_image_has_the_versions_of_the_checkout():
    locked = re.findall(r"^pyspark==(\S+)", (ROOT / "requirements/runtime.txt").read_text(), re.MULTILINE)
    assert default("SPARK") == max(locked, key=lambda spark: [int(part) for part in spark.split(".")])
    assert default("WHEEL") == f"tidegate-{tidegate.__version__}-py3-none-any.whl"


def test_image_is_refused_if_its_spark_is_not_the_one_locked_for_its_python(install):
    assert install("4.3.0").returncode == 0
    refused = install("4.2.1")
    assert refused.returncode != 0
    assert refused.stderr == (
        "requirements/runtime.txt locks Spark 4.3.0 for Python 3.12.3: add --build-arg SPARK=4.3.0\n"
    )
