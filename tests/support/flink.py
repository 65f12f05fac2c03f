"""Flink itself as an oracle: a Java program of ours, run with the jars of Flink's own test harnesses."""

import json
import subprocess
import tempfile

from benchmarks.event_time.flink import VERSION, compiled
from tidegate.servers.java import find_jars


def class_path():
    """Return where the jars are; they are fetched when they are not there yet."""
    group = "org.apache.flink"
    folders = [
        find_jars(f"{group}:flink-streaming-java:{VERSION}", "FLINK_LIBS"),
        find_jars(f"{group}:flink-runtime:{VERSION}:tests", "FLINK_LIBS", transitive=False),
        find_jars(f"{group}:flink-core:{VERSION}:tests", "FLINK_LIBS", transitive=False),
        find_jars(f"{group}:flink-test-utils-junit:{VERSION}", "FLINK_LIBS"),
    ]
    return [f"{folder}/*" for folder in folders]


def flinks_answers(source, main, traces):
    """Return what Flink makes of each trace.

    source: of the Java program.  main: its class.  It reads and prints a line of JSON for each trace.
    """
    with tempfile.TemporaryDirectory() as classes:
        lines = "".join(json.dumps(trace) + "\n" for trace in traces)
        ended = subprocess.run(
            [*compiled(source, class_path(), classes), main],
            input=lines,
            check=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
    return [json.loads(line) for line in ended.stdout.splitlines() if line[:1] in "[{"]
