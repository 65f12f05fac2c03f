"""The tutorial, done by a reader in an empty folder: its query is killed, resumed, and has lost nothing."""

import shlex
import subprocess
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from tests.support.command import await_while_running, running, started
from tests.support.pages import ROOT, blocks
from tidegate.cli import app
from tidegate.servers.server import free_ports

ORDERS = 3 * 4_320 + 720  # as the page says


def cells(shown):
    """Return the numbers of the tables that Spark has shown."""
    rows = [line.strip("|").split("|") for line in shown.splitlines() if line.startswith("|")]
    return [int(cell) for row in rows for cell in row if cell.strip().isdecimal()]


def test_the_tutorial_runs_from_top_to_bottom(spark, tmp_path, monkeypatch, capfd):
    serve, produce, order, program, begin, watch, kill, resume, result = blocks("docs/tutorial.md")
    (port,) = free_ports(1)
    page = (ROOT / "docs/tutorial.md").read_text()
    assert f"{ORDERS:,}" in page
    assert order.language == "json"
    assert begin.text == resume.text == "python count_orders.py\n"
    assert kill.text == "pkill -9 -f count_orders.py\n"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(SparkSession, "stop", lambda _: None)  # it is the session of all tests
    # The Java of the session of all tests is in another folder.
    own = {"9092": str(port), '"counts"': f'"{tmp_path}/counts"', '"checkpoint"': f'"{tmp_path}/checkpoint"'}

    with started(*shlex.split(serve.with_own(own).text)[1:]) as kafka:
        assert kafka.stdout.readline()
        _, script, *arguments = shlex.split(produce.with_own(own).text)
        subprocess.run([sys.executable, ROOT / script, *arguments], check=True, timeout=120)

        Path("count_orders.py").write_text(program.with_own(own).text)
        with running([sys.executable, "count_orders.py"]) as process:
            await_while_running(Path("checkpoint/commits/1").exists, process)
            app([*shlex.split(watch.text)[1:], "--once"], standalone_mode=False)
            watched = capfd.readouterr().out
        committed = len([*Path("checkpoint/commits").glob("[0-9]*")])

        partitions = spark.conf.get("spark.sql.shuffle.partitions")
        program.with_own(own).run({})  # another process would start another Spark
        capfd.readouterr()
        result.with_own(own).run({})
        spark.conf.set("spark.sql.shuffle.partitions", partitions)

    assert "orders at localhost" in watched
    assert committed < len([*Path("checkpoint/commits").glob("[0-9]*")])
    orders, _, still_open = cells(capfd.readouterr().out)
    assert orders + still_open == ORDERS
    assert orders > ORDERS - 500
    assert "orders-3" in Path("orders.html").read_text()
