"""Settings by which Python workers answer sooner: given when a session begins, set by register, or hinted at."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import tidegate

UNIX_SOCKETS = "spark.python.unix.domain.socket.enabled"

SCRIPT = """
import json, logging, sys
from pyspark.sql import SparkSession
import tidegate
from tidegate.sources.session import use_unix_sockets

class Lines(logging.Handler):
    def emit(self, record):
        lines.append(record.getMessage())

lines = []
logging.getLogger("tidegate").addHandler(Lines())
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
spark = builder.config(map=json.loads(sys.argv[1])).getOrCreate()
for _ in range(2):
    use_unix_sockets(spark, is_local=False)  # as on a cluster
tidegate.register(spark)

def seen(rows):
    import os
    for batch in rows:
        yield batch.assign(id=int(os.environ.get("PYTHON_UNIX_DOMAIN_ENABLED", "").lower() == "true"))

found = [row["id"] for row in spark.range(1).mapInPandas(seen, "id long").collect()]
print(json.dumps([lines, found]))
"""


def told(settings: dict[str, str]) -> tuple[list[str], list[int]]:
    """Return what is logged in a session, and whether its worker was reached over a Unix socket."""
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps(settings)], capture_output=True, text=True, timeout=120, check=False
    )
    assert ended.returncode == 0, ended.stderr
    lines, found = json.loads(ended.stdout.splitlines()[-1])
    return lines, found


@pytest.mark.parametrize(
    ("settings", "hints", "over_unix_sockets"),
    [({}, 1, 1), (tidegate.session_conf(), 0, 1), ({UNIX_SOCKETS: "false"}, 0, 0)],
)
def test_unix_sockets_are_used_where_nobody_forbids_them(settings, hints, over_unix_sockets):
    lines, found = told(settings)
    assert found == [over_unix_sockets]
    assert len(lines) == hints
    assert all(UNIX_SOCKETS in line and "tidegate.session_conf()" in line for line in lines)


@pytest.mark.parametrize(
    ("setting", "value"),
    [("spark.driver.extraJavaOptions", "-Djava.io.tmpdir={}"), ("spark.python.unix.domain.socket.dir", "{}")],
)
def test_no_unix_socket_is_asked_for_whose_path_would_be_too_long(setting, value, tmp_path):
    folder = tmp_path / ("long" * 20)
    folder.mkdir()
    _, found = told({setting: value.format(folder)})
    assert found == [0]


def test_workers_of_functions_of_users_keep_their_imports_out_of_collections(spark):
    def frozen(rows):
        import gc

        for batch in rows:
            yield batch.assign(id=gc.get_freeze_count())

    for _ in range(5):  # the two workers take turns as they like
        spark.range(2, numPartitions=2).mapInPandas(frozen, "id long").collect()
    counts = [row["id"] for row in spark.range(2, numPartitions=2).mapInPandas(frozen, "id long").collect()]
    assert min(counts) > 10_000
