"""Whatever is wrong, Spark shows one clear sentence, and no stack trace."""

import re

import pytest
from pyspark.errors import AnalysisException, PySparkException, StreamingQueryException

from tests.support.streams import NOON, finish, new_topic


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
