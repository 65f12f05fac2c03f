"""A query ends with nothing left of it and, whatever is wrong, with one clear sentence and no stack trace."""

import re
import sys
import threading
import traceback
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, PySparkException, StreamingQueryException

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


def message_of_stream(spark, options, **schema):
    reader = spark.readStream.format("tidegate_kafka").options(**options)
    with pytest.raises((StreamingQueryException, AnalysisException)) as raised:
        finish(reader.load(**schema).writeStream.format("noop").start())
    return str(raised.value)


def message_of_batch(spark, options, **schema):
    with pytest.raises(PySparkException) as raised:
        spark.read.format("tidegate_kafka").options(**options).load(**schema).count()
    return str(raised.value)


@pytest.fixture(scope="module")
def topic(kafka):
    return new_topic(kafka, [NOON] * 10, [NOON] * 10)


NO_TOPIC = {"subscribe": "{topic}x"}, "topic '{topic}x' does not exist at {servers}; did you mean '{topic}'?"
NO_OPTION = {"subscrbe": "orders"}, "there is no option 'subscrbe'; did you mean 'subscribe'?"


# Both ways of reading show a sentence of the driver's and one of the planner's.  What other sentences there are is
# shown by test_options and test_enumerator.
@pytest.mark.parametrize(
    ("message_of", "wrong", "sentence"),
    [
        (message_of_stream, *NO_TOPIC),
        (message_of_batch, *NO_TOPIC),
        (message_of_stream, *NO_OPTION),
        (message_of_batch, *NO_OPTION),
    ],
)
def test_a_wrong_option_ends_in_one_sentence(spark, kafka, topic, message_of, wrong, sentence):
    known = {"topic": topic, "servers": kafka.bootstrap_servers}
    options = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "subscribe": topic}
    options |= {name: value.format(**known) for name, value in wrong.items()}
    message = message_of(spark, options)
    assert sentence.format(**known) in message
    assert "Traceback" not in message
    assert len(re.findall(r"tidegate\.errors\.", message)) == 1


@pytest.mark.parametrize("message_of", [message_of_stream, message_of_batch])
def test_columns_that_are_not_kafka_s_end_in_one_sentence(spark, kafka, topic, message_of):
    options = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "subscribe": topic}
    message = message_of(spark, options, schema="key binary, value string")
    assert "takes no other schema: it gives key binary, value binary, topic string, " in message
    assert ", and not key binary, value string" in message
    assert "Traceback" not in message
