"""Every example runs as it stands, and gives what it promises.

``tests/docs/test_readme.py`` runs objects.py as a person runs it, in a Spark of its own.
"""

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command import PATIENCE_S, await_that
from tests.support.pages import cells
from tests.support.streams import HOUR, NOON, even_times, new_topic
from tidegate.servers.server import free_ports

EXAMPLES = Path(__file__).parents[2] / "examples"
ROWS = 3_600


@pytest.fixture(scope="module")
def topic(kafka):
    times = even_times(NOON, NOON + 3 * HOUR, ROWS // 2)
    return new_topic(kafka, times, times)


@pytest.fixture
def run(spark, kafka, topic, monkeypatch, capsys):
    """Run an example in the session of all tests, which its builder finds: a Spark of its own takes far longer."""
    before = spark.conf.getAll

    def run(name, *arguments, topic=topic):
        monkeypatch.setattr(sys, "argv", [name, kafka.bootstrap_servers, topic, *map(str, arguments)])
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")  # by which name functions travel to executors
        return capsys.readouterr().out

    yield run
    for name, value in spark.conf.getAll.items():
        if not spark.conf.isModifiable(name):  # only a new Java process heeds it
            continue
        if name not in before:
            spark.conf.unset(name)
        elif value != before[name]:
            spark.conf.set(name, before[name])


WITH_ARGUMENTS = sorted(path.name for path in EXAMPLES.glob("*.py") if "sys.exit(__doc__)" in path.read_text())


@pytest.mark.parametrize("name", WITH_ARGUMENTS)
def test_without_arguments_an_example_says_how_it_is_called(name, monkeypatch):
    monkeypatch.setattr(sys, "argv", [name])
    with pytest.raises(SystemExit, match=rf": {name} \S+ [A-Z]"):
        runpy.run_path(str(EXAMPLES / name))


def test_every_example_but_the_one_without_a_server_takes_arguments():
    assert {path.name for path in EXAMPLES.glob("*.py")} - {*WITH_ARGUMENTS} == {"typed.py"}


def test_windows_are_counted_to_the_end_of_the_topic(run):
    counts = [line.split("|")[3] for line in run("windows.py").splitlines() if "results" in line]
    assert [*map(int, counts)] == [300] * 12


def test_typed_sources_are_printed_without_a_server(run):
    assert run("typed.py").count("KafkaSource") == 2


def test_programs_that_write_say_which_kafka_or_topic_is_missing(kafka):
    (port,) = free_ports(1)
    nowhere, here = f"localhost:{port}", kafka.bootstrap_servers
    added = "add it with: tidegate kafka --add-topic ordres:4"
    wanted = {
        ("produce_orders.py", nowhere, "orders"): f"no Kafka answers at {nowhere}; start one with: tidegate kafka "
        f"--port {port} --topic orders:4",
        ("produce_orders.py", here, "ordres"): f"the Kafka at {here} has no topic 'ordres'; {added}",
        ("live.py", here, "ordres"): f"no Kafka with a topic 'ordres' answers at {here}; {added}",
    }
    runs = {
        case: subprocess.Popen([sys.executable, EXAMPLES / case[0], *case[1:]], stderr=subprocess.PIPE, text=True)
        for case in wanted
    }
    for case, run in runs.items():
        _, errors = run.communicate(timeout=PATIENCE_S)
        assert run.returncode == 1
        assert errors.splitlines() == [wanted[case]]


def test_the_live_stream_counts_every_order_however_far_a_partition_is_behind(run, kafka, spark, monkeypatch, capsys):
    shown = ""

    def closed(part):
        nonlocal shown
        shown += capsys.readouterr().out
        return [line for line in shown.splitlines() if part in line]

    def typed():
        await_that(lambda: closed("-1 holds back the others"))
        yield "fast\n"
        yield "5\n"
        before = len(closed(" orders"))
        await_that(lambda: len(closed(" orders")) > before)

    monkeypatch.setattr(sys, "stdin", typed())
    run("live.py", topic=new_topic(kafka, [], []))
    counts = {line.split("  ")[1].split(";")[0] for line in shown.splitlines() if " orders" in line}
    assert counts == {"40 orders"}
    assert "type a speed" in shown


def test_sessions_are_closed_by_timers_on_the_source_s_watermark(run, kafka):
    split = [*even_times(NOON, NOON + HOUR, 100), *even_times(NOON + 2 * HOUR, NOON + 3 * HOUR, 50)]
    shown = run("sessions.py", topic=new_topic(kafka, split, even_times(NOON, NOON + 3 * HOUR, 600)))
    assert cells(shown) == [[0, 100], [1, 600], [0, 50]]
