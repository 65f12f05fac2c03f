"""Turns of processes of their own, as drivers are."""

import subprocess
import sys
from pathlib import Path

from tests.support.waiting import await_that

DRIVER = """
import sys
from pathlib import Path
from tidegate.conformance.lab.spark.connect_turn import await_connect_turn
print("waits", flush=True)
await_connect_turn()
print("has its turn", flush=True)
sys.stdin.read()
"""


def driver(folder):
    return subprocess.Popen(
        [sys.executable, "-c", DRIVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={"TMPDIR": str(folder)},
    )


def waits_for_a_lock(process):
    with Path("/proc/locks").open() as locks:
        return any("->" in line and f" {process.pid} " in line for line in locks)


def test_a_driver_waits_until_another_has_ended_even_by_a_kill(tmp_path):
    with driver(tmp_path) as first, driver(tmp_path) as second:
        drivers = [first, second]
        try:
            for each in drivers:
                assert each.stdout.readline() == "waits\n"
            await_that(lambda: any(map(waits_for_a_lock, drivers)))
            waiting, running = sorted(drivers, key=waits_for_a_lock, reverse=True)
            assert running.stdout.readline() == "has its turn\n"
            running.kill()
            assert waiting.stdout.readline() == "has its turn\n"
        finally:
            for each in drivers:
                each.kill()
