"""A process of Spark that lacks tidegate, or has another version, says so in one sentence."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import py4j
import pyspark
import pytest
from pyspark import cloudpickle

import tidegate
from tests.support.pages import ROOT
from tidegate.errors import InstallationError
from tidegate.sources.bridge import Driver, data_source_class
from tidegate.sources.environments import require_planner

HERE = tidegate.__version__
OF_SPARK = [Path(module.__file__).parent for module in (pyspark, py4j)]
LOADS = """
import pickle, sys
try:
    pickle.loads(sys.stdin.buffer.read())
except ImportError as error:
    print(type(error).__name__, error)
"""


def python(folder, *modules):
    """Return a Python with only the modules that Spark gives its workers, and these folders of modules."""
    made, of_spark = folder / "python", folder / "of-spark"
    of_spark.mkdir()
    for package in OF_SPARK:
        (of_spark / package.name).symlink_to(package)
    path = os.pathsep.join(map(str, [*modules, of_spark]))
    made.write_text(f'#!/bin/sh\nPYTHONPATH="{path}" exec "{sys.executable}" -S "$@"\n')
    made.chmod(0o755)
    return str(made)


def other_tidegate(folder):
    module = folder / "modules" / "tidegate"
    module.mkdir(parents=True)
    (module / "version.py").write_text("__version__ = '0.0.9'\n")
    (module / "__init__.py").write_text("from tidegate.version import __version__\n")
    return module.parent


def sent():
    """Return the objects that Spark sends to executors: the data source and its reader."""
    options = {"kafka.bootstrap.servers": "localhost:9", "subscribe": "orders"}
    source = data_source_class("tidegate_kafka", tidegate.KafkaSource.from_options, Driver(2, "app"))(options)
    return source, source.streamReader(source.schema())


def told(interpreter, data):
    return subprocess.run([interpreter, "-c", LOADS], input=data, stdout=subprocess.PIPE, check=True).stdout.decode()


class TestTasks:
    @pytest.mark.parametrize("place", [0, 1], ids=["the data source", "the reader"])
    def test_without_tidegate_they_end_with_a_sentence(self, tmp_path, place):
        answer = told(python(tmp_path), cloudpickle.dumps(sent()[place]))
        assert "which Spark runs for this query, cannot import tidegate: No module named 'tidegate'; it needs" in answer
        assert f"tidegate {HERE} with its dependencies" in answer

    def test_with_another_version_they_end_with_a_sentence(self, tmp_path):
        answer = told(python(tmp_path, other_tidegate(tmp_path)), cloudpickle.dumps(sent()[1]))
        assert f"has tidegate 0.0.9, but the driver has {HERE}; install the driver's version there" in answer

    def test_without_the_dependencies_the_missing_one_is_named(self, tmp_path):
        answer = told(python(tmp_path, ROOT / "src"), cloudpickle.dumps(sent()[1]))
        assert "cannot load the source: No module named '" in answer
        assert "No module named 'tidegate'" not in answer


def test_an_archive_is_refused_when_it_is_imported(tmp_path):
    archive = tmp_path / "libraries.zip"
    with zipfile.ZipFile(archive, "w") as written:
        for name in ("__init__", "version"):
            written.write(ROOT / f"src/tidegate/{name}.py", f"tidegate/{name}.py")
    answer = told(python(tmp_path, archive), cloudpickle.dumps(sent()[1]))
    assert f"tidegate cannot run from an archive, as --py-files and addPyFile send it: {archive};" in answer


class TestPlanner:
    def test_a_python_that_is_not_there_is_named(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        with pytest.raises(InstallationError, match=r"'\./environment/bin/python', on the driver, too, where"):
            require_planner("./environment/bin/python")

    def test_a_python_without_tidegate_is_refused(self, tmp_path):
        with pytest.raises(InstallationError, match="No module named 'tidegate'; set PYSPARK_PYTHON to a Python with"):
            require_planner(python(tmp_path))

    def test_a_python_with_another_version_is_refused(self, tmp_path):
        with pytest.raises(InstallationError, match=r"where it has tidegate 0\.0\.9; set PYSPARK_PYTHON"):
            require_planner(python(tmp_path, other_tidegate(tmp_path)))


@pytest.mark.parametrize(
    ("arguments", "is_archive"),
    [
        (["-c", "import tidegate.sources.s3.source"], False),
        (["-c", "from tidegate import register"], True),
        (["-m", "tidegate", "migrate", "checkpoint"], False),
    ],
    ids=["import", "register", "command"],
)
def test_an_older_pyspark_is_one_sentence(tmp_path, arguments, is_archive):
    files, home = {"__init__": "", "version": "__version__: str = '4.1.9'\n"}, tmp_path / "older"
    if is_archive:  # as Spark's own distribution has it
        with zipfile.ZipFile(home, "w") as written:
            for name, text in files.items():
                written.writestr(f"pyspark/{name}.py", text)
    else:
        (home / "pyspark").mkdir(parents=True)
        for name, text in files.items():
            (home / f"pyspark/{name}.py").write_text(text)
    command, environment = [sys.executable, *arguments], {**os.environ, "PYTHONPATH": str(home)}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    *before, last = ended.stderr.splitlines()
    begin = "tidegate.errors.InstallationError" if before else "tidegate"
    place = home / "pyspark/__init__.py"
    assert last == f"{begin}: tidegate needs PySpark 4.2 or newer, but this Python has 4.1.9 (in {place})"
    assert not before or "-c" in arguments
