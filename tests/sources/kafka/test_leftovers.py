"""Nothing is left of a query when it ends.  It also runs on a cluster."""

import sys
import threading
import traceback
from pathlib import Path

import pytest

from tests.support.command import await_that, descendants
from tests.support.streams import HOUR, NOON, even_times, finish, kafka_source, new_topic, running, start

pytestmark = pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="looks at processes as Linux shows them")

ESTABLISHED = "01"


def planners(spark):
    """Return the planner processes of the session's queries: its Java starts them."""
    return {*descendants(spark.sparkContext._gateway.proc.pid, "python_streaming_source_runner")}


def connections(server):
    """Return the ports of all connections to the server."""
    port = f"{int(server.bootstrap_servers.rpartition(':')[2]):04X}"
    lines = [line.split() for name in ("tcp", "tcp6") for line in Path("/proc/net", name).read_text().splitlines()[1:]]
    return {
        local.rpartition(":")[2]
        for _, local, remote, state, *_ in lines
        if state == ESTABLISHED and remote.endswith(f":{port}")
    }


def threads():
    """Return the threads of this process, without those in which Spark calls Python: py4j keeps them."""
    frames = sys._current_frames()
    alive = [(thread, frames[thread.ident]) for thread in threading.enumerate() if thread.ident in frames]
    return {t for t, at in alive if not any("py4j" in f.f_code.co_filename for f, _ in traceback.walk_stack(at))}


def held(spark, kafka):
    """Return the present planner processes, connections and threads of the driver."""
    return planners(spark), connections(kafka), threads()


def await_nothing_left(spark, kafka, before):
    """Wait until only the resources from before are left; readers close idle connections after a while."""

    def left():
        return [now - then for now, then in zip(held(spark, kafka), before, strict=True)]

    await_that(lambda: not any(left()), state=left)


def test_of_a_query_that_was_stopped_and_of_one_that_failed_no_process_no_connection_and_no_thread_is_left(
    spark, kafka, tmp_path
):
    topic = new_topic(kafka, even_times(NOON, NOON + HOUR, 100))
    before = held(spark, kafka)
    frame = kafka_source(kafka, topic, starting_offsets="earliest").read_stream(spark)
    read = []
    with running(start(frame, tmp_path / "stopped", lambda batch, _: read.append(batch.count()))) as query:
        query.processAllAvailable()
        assert sum(read) == 100
        assert planners(spark) - before[0]
        assert connections(kafka) - before[1]

    def fail(batch, number):
        raise RuntimeError(f"batch {number} is refused")

    with pytest.raises(Exception, match="is refused"):
        finish(start(frame, tmp_path / "failed", fail))
    await_nothing_left(spark, kafka, before)
