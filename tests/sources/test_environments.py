"""Processes of Spark: one that lacks tidegate or has another version, the imports of workers, and a task in one."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

import py4j
import pyspark
import pytest
from pyspark import cloudpickle

import tidegate
from tests.sources.kafka.test_event_time import produce
from tests.support.command import PATIENCE_S
from tests.support.logs import coordinating
from tests.support.pages import ROOT
from tests.support.streams import HOUR, NOON, even_times, kafka_source, new_topic
from tidegate.alignment.plan import Limits
from tidegate.errors import InstallationError
from tidegate.readers.models import without_jars
from tidegate.sources.bridge import Driver, data_source_class
from tidegate.sources.environments import require_planner
from tidegate.sources.tasks import SOURCE_WATERMARK, TaskPartition

HERE = tidegate.__version__
OPTIONS = {"kafka.bootstrap.servers": "localhost:9", "subscribe": "orders"}
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
    source = data_source_class("tidegate_kafka", tidegate.KafkaSource.from_options, Driver(2, "app"))(OPTIONS)
    return source, source.streamReader(source.schema())


GETS_A_CLASS = f"import pickle, sys; pickle.loads(sys.stdin.buffer.read())({OPTIONS})"
GETS_AN_OBJECT = "import pickle, sys; pickle.loads(sys.stdin.buffer.read())"
MAKES_A_SOURCE = f"import tidegate; tidegate.KafkaSource.from_options({OPTIONS})"
MODEL = "import sys, pydantic; pydantic.create_model('Model', number=(int, 0)); print('plugin' in sys.modules)"
LOOP = "import sys, numba; numba.njit(lambda: 0)(); print('plugin' in sys.modules)"


@pytest.mark.parametrize(
    ("gets", "place", "uses", "looks"),
    [
        (GETS_A_CLASS, 0, MODEL, False),
        (GETS_AN_OBJECT, 1, MODEL, False),
        (GETS_AN_OBJECT, 2, MODEL, False),
        (MAKES_A_SOURCE, 0, MODEL, False),
        ("import tidegate.readers.kafka.decoder", 0, LOOP, False),
        ("", 0, MODEL, True),
        ("", 0, LOOP, True),
    ],
    ids=[
        "the class",
        "the data source",
        "the reader",
        "a source",
        "loops",
        "a model without tidegate",
        "a loop without tidegate",
    ],
)
def test_processes_with_tidegate_look_for_no_plugins_in_jars(tmp_path, gets, place, uses, looks):
    jar = tmp_path / "plugin.jar"
    with zipfile.ZipFile(jar, "w") as made:
        made.writestr("plugin.py", "class Plugin:\n    new_schema_validator = lambda *_: (None, None, None)\n")
        made.writestr("plugin-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: plugin\nVersion: 1\n")
        points = "[pydantic]\nplugin = plugin:Plugin\n[numba_extensions]\ninit = plugin:Plugin\n"
        made.writestr("plugin-1.dist-info/entry_points.txt", points)
    objects = (data_source_class("tidegate_kafka", tidegate.KafkaSource.from_options, Driver(2, "app")), *sent())
    answer = subprocess.run(
        [sys.executable, "-c", f"{gets}\n{uses}"],
        input=cloudpickle.dumps(objects[place]),
        env={**os.environ, "PYTHONPATH": str(jar)},
        stdout=subprocess.PIPE,
        check=True,
    )
    assert answer.stdout.decode().strip() == str(looks)


def test_jars_come_back_to_their_places_on_the_path(monkeypatch):
    monkeypatch.setattr(sys, "path", [Path("one"), "two.jar", "three"])
    with without_jars():
        assert sys.path == [Path("one"), "three"]
        sys.path.append("four")
    assert sys.path == [Path("one"), "two.jar", "three", "four"]


def test_a_connector_that_only_the_program_defines_comes_whole():
    @dataclass
    class Pair:
        first: int = 1

    class Own(tidegate.KafkaSource):
        rows: int = 3
        pair: Pair = Pair()

    data = cloudpickle.dumps(data_source_class("own", Own.from_options, Driver(2, "app")))
    program = f"import pickle, sys; made = pickle.loads(sys.stdin.buffer.read())({ {**OPTIONS, 'rows': '4'} })"
    answer = subprocess.run(
        [sys.executable, "-c", f"{program}; print(made.source.rows)"], input=data, stdout=subprocess.PIPE, check=True
    )
    assert answer.stdout.decode().strip() == "4"


def reported(interpreter, data):
    return subprocess.run([interpreter, "-c", LOADS], input=data, stdout=subprocess.PIPE, check=True).stdout.decode()


class TestTasks:
    @pytest.mark.parametrize("place", [0, 1], ids=["the data source", "the reader"])
    def test_without_tidegate_they_end_with_a_sentence(self, tmp_path, place):
        answer = reported(python(tmp_path), cloudpickle.dumps(sent()[place]))
        assert "which Spark runs for this query, cannot import tidegate: No module named 'tidegate'; it needs" in answer
        assert f"tidegate {HERE} with its dependencies" in answer

    def test_with_another_version_they_end_with_a_sentence(self, tmp_path):
        answer = reported(python(tmp_path, other_tidegate(tmp_path)), cloudpickle.dumps(sent()[1]))
        assert f"has tidegate 0.0.9, but the driver has {HERE}; install the driver's version there" in answer

    def test_without_the_dependencies_the_missing_one_is_named(self, tmp_path):
        answer = reported(python(tmp_path, ROOT / "src"), cloudpickle.dumps(sent()[1]))
        assert "cannot load the source: No module named '" in answer
        assert "No module named 'tidegate'" not in answer


def test_an_archive_is_refused_when_it_is_imported(tmp_path):
    archive = tmp_path / "libraries.zip"
    with zipfile.ZipFile(archive, "w") as written:
        for name in ("__init__", "version"):
            written.write(ROOT / f"src/tidegate/{name}.py", f"tidegate/{name}.py")
    answer = reported(python(tmp_path, archive), cloudpickle.dumps(sent()[1]))
    assert f"tidegate cannot run from an archive, as --py-files and addPyFile send it: {archive};" in answer


class TestPlanner:
    def test_a_python_that_is_not_there_is_named(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        with pytest.raises(InstallationError, match=r"'\./environment/bin/python', on the driver, where"):
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


TASK_WORKER = """
import pickle, sys
from tidegate.sources.tasks import read_task
source, partitions = pickle.load(sys.stdin.buffer)
rows = sum(batch.num_rows for partition in partitions for batch in read_task(source, partition))
print(rows, "numpy" in sys.modules, "pandas" in sys.modules)
"""


TYPED = {
    "value_format": "json",
    "value_schema": "n BIGINT, at TIMESTAMP",
    "event_time": "value.at",
    "where": "value.n >= 0 AND (value.at > '2020-01-01T00:00:00Z' OR value.n IN (1, 2.5)) AND key IS NOT NULL",
}


@pytest.mark.parametrize("fields", [{}, TYPED])
def test_records_their_event_times_and_watermarks_are_read_without_pandas(kafka, fields):
    topic = new_topic(kafka, *([] if fields else even_times(NOON, NOON + HOUR, count) for count in (100, 50)))
    for partition, count in enumerate((100, 50) if fields else ()):
        values = [b'{"n":%d,"at":"2023-11-15T12:%02d:00Z"}' % (n, n % 60) for n in range(count)]
        produce(kafka, topic, partition, [(value, []) for value in values])
    source = kafka_source(
        kafka,
        topic,
        starting_offsets="earliest",
        include_headers=True,
        include_event_time=True,
        source_watermark="rows",
        **fields,
    )
    with coordinating(source, limits=Limits(aligned=False)) as run:
        tasks, state = run.everything()
    moved = {SOURCE_WATERMARK: NOON}
    partitions = [TaskPartition(task, state, moved, watermark_row_ms=moved) for task in tasks]
    worker = subprocess.run(
        [sys.executable, "-c", TASK_WORKER], input=pickle.dumps((source, partitions)), capture_output=True, check=True
    )
    assert worker.stdout.split() == [b"%d" % (150 + len(tasks)), b"True", b"False"]


TASKS = 10_000

PRELUDE = """
import gc, sys, weakref
from tidegate.sources import worker_daemon
from tidegate.sources.worker_daemon import freeze_imports

class Node:
    def __init__(self):
        self.itself, self.ballast = self, bytearray(20_000)

def resident_mib():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmRSS"))

def end_of_task():  # what pyspark.daemon does
    gc.collect()
"""


def run(script: str) -> str:
    """Run the code of a worker in a process of its own."""
    ended = subprocess.run(
        [sys.executable, "-c", PRELUDE + script], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.mark.parametrize("of_a_task", ["freeze_imports(); tasks(); end_of_task()", "tasks(); worker_daemon.collect()"])
def test_memory_is_flat_over_ten_thousand_tasks_that_leave_garbage(of_a_task: str) -> None:
    script = f"""
import pyarrow, numpy
def tasks():
    for _ in range(3):
        Node()
sizes = []
for task in range({TASKS}):
    {of_a_task}
    if task % {TASKS // 10} == 99:
        sizes.append(resident_mib())
print(max(sizes) - min(sizes))
"""
    assert float(run(script)) < 4


def test_later_collections_see_nothing_of_what_was_there_before_and_no_garbage_is_kept() -> None:
    script = """
import pyarrow, numpy
before = len(gc.get_objects())
garbage = weakref.ref(Node())
freeze_imports()
assert garbage() is None, "garbage is kept for ever"
assert len(gc.get_objects()) < before / 20
"""
    run(script)


def test_imports_of_the_next_tasks_are_kept_out_too_and_then_nothing_more() -> None:
    script = """
freeze_imports()
import decimal, http.client
freeze_imports()
import xml.dom.minidom
freeze_imports()
frozen = gc.get_freeze_count()
kept = [Node() for _ in range(100)]
freeze_imports()
assert gc.get_freeze_count() == frozen
gone = weakref.ref(kept[0])
del kept
end_of_task()
assert gone() is None
"""
    run(script)


WORKER = """
import os, socket, sys
from pyspark import daemon
from tidegate.spark_private import end_quietly

sys.modules["__main__"] = daemon
if sys.argv[1] == "quiet":
    end_quietly()
ours, javas = socket.socketpair()
javas.close()  # as when a session ends, or after a minute without a task
try:
    daemon.worker(ours, True) if sys.argv[2] == "left" else 1 / 0
except Exception:
    daemon.traceback.print_exc()  # as its manager does
    os._exit(1)
"""
PLANNER = """
import socket, sys
from pyspark.sql.streaming import python_streaming_source_runner as planner
from tidegate.spark_private import end_quietly

sys.modules["__main__"] = planner
if sys.argv[1] == "quiet":
    end_quietly()
if sys.argv[2] == "fails":
    try:
        raise ZeroDivisionError
    except ZeroDivisionError:
        raise BrokenPipeError  # as if Java did not take it
ours, javas = socket.socketpair()
javas.close()  # as when a stream is stopped
file = ours.makefile("rwb", 65536)
planner.main(file, file)
"""


@pytest.mark.parametrize(
    ("how", "what", "says"),
    [("as before", "left", "BrokenPipeError"), ("quiet", "left", ""), ("quiet", "fails", "ZeroDivisionError")],
)
@pytest.mark.parametrize("process", [WORKER, PLANNER], ids=["worker", "planner"])
def test_a_process_that_got_a_source_ends_quietly_when_java_leaves_it(process, how, what, says) -> None:
    environment = {**os.environ, "PYTHON_DAEMON_KILL_WORKER_ON_FLUSH_FAILURE": "true"}  # as Spark sets it
    command = [sys.executable, "-c", process, how, what]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert says in ended.stderr
    assert bool(ended.stderr) is bool(says)
