"""The notebook of the tutorial, run cell by cell: its query is killed, resumed, and has lost nothing.

``test_notebook`` shows that its cells are the programs and the commands of the page.
"""

import json
import os
import shlex
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from tests.docs.notebook import NOTEBOOK, PAGE
from tests.support.pages import ROOT, Block
from tests.support.waiting import PATIENCE_S
from tidegate.cli import app
from tidegate.servers.server import free_ports

ORDERS = 3 * 4_320 + 720  # as the page says


class Notebook:
    """Runs cells as IPython does, as far as the notebook needs it, but in the Spark of all tests.

    names: of the kernel.
    """

    def __init__(self, own):
        self.names, self._own = {}, own

    def run(self, number, source):
        first, _, rest = source.partition("\n")
        kind, _, argument = first.partition(" ")
        if kind == "%cd":
            os.chdir(shlex.split(argument)[-1])
        elif kind == "%%writefile":
            Path(argument).write_text(rest)
        elif first == "!python count_orders.py":  # another process would start another Spark
            self._run(argument, Path("count_orders.py").read_text(), {})
        elif kind == "!tidegate":
            app(shlex.split(argument), standalone_mode=False)
        elif kind == "!python":
            subprocess.run([sys.executable, *shlex.split(argument)], check=True, timeout=PATIENCE_S)
        else:
            self._run(f"cell {number}", source, self.names)

    def _run(self, title, text, names):
        Block(title, 1, "python", text).with_own(self._own).run(names)

    @contextmanager
    def ending(self):
        """End the processes that cells have started."""
        try:
            yield
        finally:
            for process in (value for value in self.names.values() if isinstance(value, subprocess.Popen)):
                process.kill()
                process.communicate()


def table_cells(shown):
    """Return the numbers of the tables that Spark has shown."""
    rows = [line.strip("|").split("|") for line in shown.splitlines() if line.startswith("|")]
    return [int(cell) for row in rows for cell in row if cell.strip().isdecimal()]


def test_the_tutorial_runs_from_top_to_bottom(spark, tmp_path, monkeypatch, capfd):
    (port,) = free_ports(1)
    assert f"{ORDERS:,}" in PAGE.read_text()
    (tmp_path / "docs").mkdir()
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path / "docs")
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    monkeypatch.setattr(SparkSession, "stop", lambda _: None)  # it is the session of all tests
    partitions = spark.conf.get("spark.sql.shuffle.partitions")
    # The Java of the session of all tests is in another folder.
    notebook = Notebook({'"counts"': f'"{tmp_path}/counts"', '"checkpoint"': f'"{tmp_path}/checkpoint"'})
    code = [cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"]
    shown, commits = {}, {}
    with notebook.ending():
        for number, cell in enumerate(code):
            source = "".join(cell["source"]).replace("9092", str(port))
            notebook.run(number, source)
            shown[source], commits[source] = capfd.readouterr().out, len([*Path("checkpoint/commits").glob("[0-9]*")])
    spark.conf.set("spark.sql.shuffle.partitions", partitions)

    assert "orders at localhost" in shown["!tidegate watch --once"]
    before, after = (
        next(commits[s] for s in commits if part in s) for part in ("run.kill()", "!python count_orders.py")
    )
    assert 0 < before < after
    orders, _, still_open = table_cells(next(shown[source] for source in shown if "statestore" in source))
    assert orders + still_open == ORDERS
    assert orders > ORDERS - 500
    assert "orders-3" in Path("orders.html").read_text()
