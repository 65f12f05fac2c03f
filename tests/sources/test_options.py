"""Options: every one is understood, and a wrong one gets one sentence that says what is allowed."""

import pickle
from datetime import datetime, timedelta, timezone

import pytest
from kafka.net.manager import KafkaConnectionManager
from pydantic import ValidationError

from tidegate import KafkaSource, OptionError, WatermarkStrategy
from tidegate.sources.kafka_properties import connection_config, known
from tidegate.sources.options import parse_duration

NEEDED = {"kafka.bootstrap.servers": "here:9092", "subscribe": "orders"}


def of(**options):
    """Return the source of Spark's options; a name with two underscores stands for a dot."""
    return KafkaSource.from_options({**NEEDED, **{n.replace("__", "."): v for n, v in options.items()}})


@pytest.mark.parametrize(
    ("options", "field", "value"),
    [
        ({"subscribe": "orders, payments"}, "subscribe", ("orders", "payments")),
        ({"startingOffsets": "Earliest"}, "starting_offsets", "earliest"),
        ({"startingOffsets": '{"orders": {"0": 23, "1": -2}}'}, "starting_offsets", {"orders": {0: 23, 1: -2}}),
        ({"startingTimestamp": "1700000000000"}, "starting_timestamp", 1_700_000_000_000),
        (
            {"startingOffsetsByTimestamp": '{"orders": {"0": 17}}'},
            "starting_offsets_by_timestamp",
            {"orders": {0: 17}},
        ),
        (
            {"startingOffsetsByTimestampStrategy": "latest"},
            "starting_offsets_by_timestamp_strategy",
            "latest",
        ),
        ({"endingOffsets": "latest"}, "ending_offsets", "latest"),
        ({"endingTimestamp": "5"}, "ending_timestamp", 5),
        ({"endingOffsetsByTimestamp": '{"orders": {"0": 17}}'}, "ending_offsets_by_timestamp", {"orders": {0: 17}}),
        ({"maxOffsetsPerTrigger": "1000"}, "max_offsets_per_trigger", 1000),
        ({"minPartitions": "7"}, "min_partitions", 7),
        ({"failOnDataLoss": "false"}, "fail_on_data_loss", False),
        ({"includeHeaders": "true"}, "include_headers", True),
        ({"includeSourceWatermark": "true"}, "include_source_watermark", True),
        ({"alignment": "none"}, "alignment", "none"),
        ({"discoveryInterval": "5 minutes"}, "discovery_interval", timedelta(minutes=5)),
        ({"logLevel": "INFO"}, "log_level", "INFO"),
        ({"kafka.isolation.level": "read_committed"}, "kafka", {"isolation.level": "read_committed"}),
        ({"maxDrift": "10 minutes"}, "watermarks", WatermarkStrategy(max_drift=timedelta(minutes=10))),
        ({"maxOutOfOrderness": "500 ms"}, "watermarks", WatermarkStrategy(timedelta(milliseconds=500))),
        ({"idleTimeout": "2 hours"}, "watermarks", WatermarkStrategy(idle_timeout=timedelta(hours=2))),
    ],
)
@pytest.mark.parametrize("spelt", [str, str.lower, str.upper])
def test_every_option_is_understood_however_it_is_spelt(options, field, value, spelt):
    source = KafkaSource.from_options({spelt(name): given for name, given in {**NEEDED, **options}.items()})
    assert getattr(source, field) == value


@pytest.mark.parametrize("other", [{"subscribePattern": "o.*"}, {"assign": '{"orders": [0, 1]}'}])
def test_the_other_ways_to_subscribe(other):
    source = KafkaSource.from_options({"kafka.bootstrap.servers": "here:9092", **other})
    assert source.subscribe_pattern == other.get("subscribePattern")
    assert source.assign == ({"orders": (0, 1)} if "assign" in other else None)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"maxDirft": "1 hour"}, "there is no option 'maxdirft'; did you mean 'maxDrift'?"),
        (
            {"maxDrift": "10"},
            "the option 'maxDrift' is '10': a duration needs a unit, such as '10 minutes' or '500 ms'",
        ),
        ({"maxDrift": "0 ms"}, "max drift is 0:00:00, but it must be at least one millisecond"),
        ({"maxDrift": "-1 hour"}, "must be at least one millisecond"),
        ({"maxDrift": "999999999 days"}, "the option 'maxDrift' is '999999999 days'"),
        ({"idleTimeout": "0 s"}, "idle timeout is 0:00:00, but it must be more than zero"),
        ({"maxOutOfOrderness": "-1 ms"}, "but it must be zero or more"),
        ({"discoveryInterval": "soon"}, "the option 'discoveryInterval' is 'soon': expected a duration"),
        ({"maxOffsetsPerTrigger": "0"}, "the option 'maxOffsetsPerTrigger' is '0': Input should be greater than 0"),
        ({"minPartitions": "many"}, "the option 'minPartitions' is 'many': Input should be a valid integer"),
        ({"failOnDataLoss": "perhaps"}, "the option 'failOnDataLoss' is 'perhaps': Input should be a valid boolean"),
        ({"alignment": "event_time"}, "the option 'alignment' is 'event_time': Input should be 'event-time' or 'none'"),
        ({"logLevel": "LOUD"}, "Input should be 'DEBUG', 'INFO', 'WARNING' or 'ERROR'"),
        (
            {"startingOffsets": "first"},
            "the option 'startingOffsets' is 'first': expected earliest, latest, or an offset",
        ),
        ({"startingOffsets": '{"orders": 5}'}, "expected an offset of 0 or more, -2 (earliest) or -1 (latest) for"),
        ({"startingOffsets": '{"orders": {"0": -3}}'}, "expected an offset of 0 or more"),
        ({"startingOffsets": '{"orders": {"0": 1.5}}'}, "expected an offset of 0 or more"),
        ({"startingOffsets": '{"orders": {"0": true}}'}, "expected an offset of 0 or more"),
        ({"startingOffsets": '{"orders": {"-1": 5}}'}, "expected an offset of 0 or more"),
        ({"startingOffsets": '{"orders": {"0": 5, "0": 6}}'}, "it names '0' twice"),
        ({"startingOffsets": "{}"}, "it names no partition"),
        ({"endingOffsets": '{"orders": {}}'}, "it names no partition"),
        ({"endingOffsets": '{"orders": {"0": -2}}'}, "endingOffsets says earliest (-2), before any record"),
        ({"startingTimestamp": "-1"}, "the option 'startingTimestamp' is '-1': expected a time in milliseconds since"),
        ({"endingTimestamp": "-2"}, "the option 'endingTimestamp' is '-2': expected a time in milliseconds since 1970"),
        ({"startingOffsetsByTimestamp": '{"orders": {"0": -1}}'}, "expected a time in milliseconds since 1970 for"),
        ({"endingOffsetsByTimestamp": "{}"}, "it names no partition"),
        ({"startingOffsets": '{"orders": {"0": '}, "malformed JSON at character"),
        ({"startingTimestamp": "yesterday"}, "the option 'startingTimestamp' is 'yesterday'"),
        ({"endingOffsets": "earliest"}, "endingOffsets says earliest (-2), before any record"),
        ({"startingOffsets": "latest", "startingTimestamp": "5"}, "startingOffsets and startingTimestamp exclude"),
        ({"subscribePattern": "o.*"}, "the options subscribe and subscribePattern exclude each other"),
        ({"kafka__isolation__level": "committed"}, "expected read_uncommitted or read_committed"),
        (
            {"kafka__isolation__levl": "x"},
            "there is no option 'kafka.isolation.levl'; did you mean 'kafka.isolation.level'?",
        ),
        (
            {"kafka__fetch__max__bytes": "many"},
            "'kafka.fetch.max.bytes' is malformed: expected a whole number above zero",
        ),
        ({"kafka__check__crcs": "1"}, "'kafka.check.crcs' is malformed: expected true or false"),
        ({"kafka__group__id": "g"}, "'kafka.group.id' is of Kafka's Java client; here, positions stand in Spark's"),
    ],
)
def test_a_wrong_option_gets_one_sentence(options, sentence):
    with pytest.raises(OptionError) as raised:
        of(**options)
    assert sentence in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"subscribe": "orders"}, "the option 'kafka.bootstrap.servers' is missing"),
        ({"kafka.bootstrap.servers": "here"}, "one of the options subscribe, subscribePattern, assign must be set"),
        ({"kafka.bootstrap.servers": "here", "subscribe": " , "}, "the option 'subscribe'"),
        ({"kafka.bootstrap.servers": "here", "subscribePattern": "("}, "subscribePattern '(' is no regular expression"),
        ({"kafka.bootstrap.servers": "here", "assign": "orders"}, "the option 'assign' is 'orders'"),
        ({"kafka.bootstrap.servers": "here", "assign": '{"orders": "12"}'}, "expected the partitions of every topic"),
        ({"kafka.bootstrap.servers": "here", "assign": '{"orders": [-1]}'}, "expected the partitions of every topic"),
        ({"kafka.bootstrap.servers": "here", "assign": '{"orders": []}'}, "it names no partition of 'orders'"),
        ({"kafka.bootstrap.servers": "here", "assign": "{}"}, "the option 'assign' is '{}'"),
    ],
)
def test_what_is_missing_is_named(options, sentence):
    with pytest.raises(OptionError) as raised:
        KafkaSource.from_options(options)
    assert sentence in str(raised.value)


def test_what_is_named_twice_is_read_once():
    assert of(subscribe="orders,orders").subscribe == ("orders",)
    source = KafkaSource(bootstrap_servers="here:9092", assign={"orders": [0, 1, 0]})
    assert source.assign == {"orders": (0, 1)}


def test_in_python_errors_name_the_fields():
    with pytest.raises(OptionError, match=r"there is no option 'max_offset_per_trigger'; did you mean 'max_offsets_"):
        KafkaSource(bootstrap_servers="here", subscribe=["orders"], max_offset_per_trigger=5)


SECRET = "hunter2"  # noqa: S105 - no real one
SECRETS = ["kafka.sasl.plain.password", "kafka.ssl.password", "kafka.sasl.jaas.config", "kafka.ssl.keystore.password"]


@pytest.mark.parametrize("name", SECRETS)
@pytest.mark.parametrize("wrong", [{"maxDrift": "x"}, {"kafka.no.such": SECRET}, {"kafka.check.crcs": SECRET}])
def test_a_secret_shows_in_no_error(name, wrong):
    with pytest.raises(OptionError) as raised:
        KafkaSource.from_options({**NEEDED, name: SECRET, **wrong})
    assert SECRET not in str(raised.value)
    assert SECRET not in repr(raised.value)


@pytest.mark.parametrize("name", SECRETS[:2])
def test_a_secret_shows_in_no_text_of_the_source(name):
    source = KafkaSource.from_options({**NEEDED, name: SECRET})
    assert SECRET not in repr(source) + str(source)


def test_every_property_of_the_connection_is_one_that_kafka_python_heeds():
    values = {
        "security.protocol": "SSL",
        "isolation.level": "read_committed",
        "proxy.url": "socks5://here",
    }
    numbers = {name: "7" for name in known() if name.endswith((".ms", ".bytes"))}
    booleans = dict.fromkeys(("check.crcs", "ssl.check.hostname"), "true")
    properties = {**dict.fromkeys(known(), "x"), **numbers, **booleans, **values}
    del properties["bootstrap.servers"]
    config = connection_config("here:9092", properties)
    assert config.properties.keys() <= KafkaConnectionManager.DEFAULT_CONFIG.keys()
    assert len(config.properties) + 6 == len(properties)


def test_a_source_is_immutable_and_travels_by_pickle():
    source = of(maxDrift="1 hour", kafka__isolation__level="read_committed")
    assert pickle.loads(pickle.dumps(source)) == source  # noqa: S301 - our own
    with pytest.raises(ValidationError, match="frozen"):
        source.subscribe = ("payments",)


def test_a_batch_query_begins_at_the_earliest_offset_unless_told_otherwise():
    assert of().as_batch().starting_offsets == "earliest"
    assert of(startingTimestamp="5").as_batch().starting_offsets is None
    with pytest.raises(OptionError, match="a batch query would read nothing"):
        of(startingOffsets="latest").as_batch()


def test_times_may_be_given_as_datetimes_with_a_zone():
    at = datetime(2026, 1, 1, tzinfo=timezone.utc)
    assert KafkaSource(bootstrap_servers="h", subscribe=["o"], starting_timestamp=at).starting_timestamp == at
    with pytest.raises(OptionError, match="starting_timestamp"):
        KafkaSource(bootstrap_servers="h", subscribe=["o"], starting_timestamp=at.replace(tzinfo=None))


@pytest.mark.parametrize(
    ("text", "duration"),
    [
        ("500 ms", timedelta(milliseconds=500)),
        ("10 minutes", timedelta(minutes=10)),
        ("1 hour 30 minutes", timedelta(minutes=90)),
        ("2 days", timedelta(days=2)),
        (" 1 second ", timedelta(seconds=1)),
        (timedelta(hours=1), timedelta(hours=1)),
    ],
)
def test_durations_are_read_as_people_write_them(text, duration):
    assert parse_duration(text) == duration


@pytest.mark.parametrize("text", ["", "10", "1.5", "-3", "fast", "10 parsecs", "NaT", "nan", None, "P", "1e400 s"])
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(ValueError, match="duration"):
        parse_duration(text)
