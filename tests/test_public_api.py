"""The public API: names, documentation, the cost of importing it, and what works without the packages of extras."""

import inspect
import os
import re
import subprocess
import sys

import pytest

import tidegate
import tidegate.conformance
from tests.support.streams import HOUR, NOON, even_times, new_topic


@pytest.mark.parametrize("name", sorted(tidegate.__all__))
def test_every_public_name_and_its_methods_are_documented(name):
    public = getattr(tidegate, name)
    assert inspect.getdoc(public)
    if inspect.isclass(public):
        own = [m for n, m in vars(public).items() if not n.startswith(("_", "model_")) and callable(m)]
        assert [method.__name__ for method in own if not inspect.getdoc(method)] == []


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("import tidegate.cli", ["pyspark", "numba", "pandas", "kafka", "pydantic"]),
        (
            "from tidegate import register, KafkaSource",
            ["numba", "pandas", "boto3", "pyarrow.compute", "pyarrow.parquet", "fastavro"],
        ),
        ("import tidegate.jobs.watch", ["pyspark", "numba", "pandas", "kafka"]),
        (  # in each run of pytest
            "import tidegate.conformance.pytest_plugin",
            ["pyspark", "pyarrow", "pydantic", "rich", "hypothesis", "numpy", "kafka", "tidegate.conformance.harness"],
        ),
    ],
)
def test_nothing_is_imported_before_it_is_needed(statement, absent):
    probe = f"import sys; {statement}; print([m for m in {absent} if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'KafkaSorce'"):
        tidegate.KafkaSorce  # noqa: B018 - reading it is the test


def test_every_public_name_of_the_kit_is_there():
    for name in tidegate.conformance.__all__:
        assert getattr(tidegate.conformance, name) is not None
        assert name in dir(tidegate.conformance)


BLOCK = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {packages}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocked())
sys.argv[1:] = {arguments}
{program}
"""
COMMAND = "from tidegate.cli import main; main()"
AVRO = """
from tidegate.readers.formats.options import FormatOptions
from tidegate.readers.formats.registry import FORMATS, INFERRED
FORMATS['avro'].create(FormatOptions(), None, INFERRED)
"""
TABLE = """
from tidegate.readers.archive.columns import TableColumns
from tidegate.readers.archive.{kind} import {name}Archive
{name}Archive('{kind}:/no/table.at.all', TableColumns()).list_files([('t', 0)], None)
"""
SOURCES = """
import tidegate
print(tidegate.KafkaSource(bootstrap_servers='b:1', subscribe=['t'], max_future_skew='1h30m').connector)
print(tidegate.S3Source(path='s3://b/p', columns=['at']).connector)
"""
SPARK = ("pandas", "py4j", "pyspark")


def run(packages, program, *arguments, **environment):
    """Run a program in a Python that cannot import these packages."""
    text = BLOCK.format(packages=set(packages), arguments=[*map(str, arguments)], program=program)
    environment = {**os.environ, "COLUMNS": "200", **environment}
    return subprocess.run(
        [sys.executable, "-c", text], env=environment, capture_output=True, text=True, check=False, timeout=300
    )


HEAVY = {"boto3", "kafka", "markdown_it", "numpy", "pyarrow", "pyspark", "tidegate.sources"}
LOADED = """
import sys
from tidegate.cli import main
try:
    main()
finally:
    print(*sorted(sys.modules), file=sys.stderr)
"""


@pytest.mark.parametrize("arguments", [("--version",), ("--help",), ("preview", "--help")])
def test_what_the_command_line_says_of_itself_loads_nothing_heavy(arguments):
    ended = run((), LOADED, *arguments)
    assert ended.returncode == 0
    assert HEAVY.isdisjoint(ended.stderr.split())


def test_a_preview_needs_neither_pyspark_nor_java(kafka):
    topic = new_topic(
        kafka, even_times(NOON, NOON + 10 * HOUR, 1_000), even_times(NOON + 9 * HOUR, NOON + 10 * HOUR, 100)
    )
    command = ("preview", "--bootstrap-servers", kafka.bootstrap_servers, "--topic", topic, "--rows-per-batch", 100)
    ended = run(SPARK, COMMAND, *command, PATH="", JAVA_HOME="/nowhere")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert re.match(r"Spark's own source would lose \d+ of 1,100 rows", ended.stdout)
    assert f"{topic}-1" in ended.stdout


@pytest.mark.parametrize(
    ("packages", "program", "arguments", "sentence"),
    [
        (SPARK, "import tidegate; tidegate.register", (), r"tidegate.register needs the package pyspark, .*\[spark\]"),
        (
            SPARK,
            COMMAND,
            ("backfill", "--bootstrap-servers", "b:1", "--topic", "t", "--max-drift", "1 hour", "--out", "never"),
            r"^tidegate: this command needs the package pyspark, which is missing: .* pip install '\.\[spark\]'",
        ),
        (
            {"fastavro"},
            AVRO,
            (),
            r"fileFormat = avro needs the package fastavro, which is missing: .* pip install '\.\[avro\]'",
        ),
        (
            {"deltalake"},
            TABLE.format(kind="delta", name="Delta"),
            (),
            r"archive = delta: needs the package deltalake, which is missing: .* pip install '\.\[delta\]'",
        ),
        (
            {"pyiceberg"},
            TABLE.format(kind="iceberg", name="Iceberg"),
            (),
            r"archive = iceberg: needs the package pyiceberg, which is missing: .* pip install '\.\[iceberg\]'",
        ),
    ],
    ids=["register", "backfill", "avro", "delta", "iceberg"],
)
def test_what_an_extra_would_bring_is_asked_for_in_one_sentence(packages, program, arguments, sentence):
    ended = run(packages, program, *arguments)
    assert ended.returncode == 1
    assert re.search(sentence, ended.stderr.splitlines()[-1])


def test_sources_are_configured_without_any_extra():
    ended = run({*SPARK, "deltalake", "fastavro", "google", "grpc", "grpc_tools", "pyiceberg"}, SOURCES)
    assert (ended.stdout.split(), ended.stderr) == (["kafka", "s3"], "")


def test_the_tests_of_users_show_no_warning_of_kafka_python(tmp_path):
    (tmp_path / "test_import.py").write_text("def test_it():\n    import tidegate.readers.kafka.client\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (done.returncode, "warning" in done.stdout) == (0, False)
