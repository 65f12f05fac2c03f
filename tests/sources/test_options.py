"""Options: every one is understood, and a wrong one gets one sentence that says what is allowed."""

import pickle
from datetime import datetime, timedelta, timezone

import pytest
from kafka.cluster import collect_hosts
from kafka.net.manager import KafkaConnectionManager
from pydantic import Field, ValidationError

from tidegate import KafkaSource, OptionError, S3Source, WatermarkStrategy
from tidegate.conformance.memory import MemorySource
from tidegate.sources.kafka_properties import connection_config, known

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
        ({"includeSourceWatermark": "true", "watermarkRows": "true"}, "watermark_rows", True),
        ({"lateSplits": "fail"}, "late_splits", "fail"),
        ({"eventTime": "json:/at"}, "event_time", "json:/at"),
        ({"eventTime": "header:At", "eventTimeUnit": "us"}, "event_time_unit", "us"),
        ({"badEventTime": "ignore"}, "bad_event_time", "ignore"),
        ({"maxFutureSkew": "1 hour"}, "max_future_skew", timedelta(hours=1)),
        ({"futureEventTime": "hold"}, "future_event_time", "hold"),
        ({"includeEventTime": "true"}, "include_event_time", True),
        ({"maxBytesPerTrigger": "1000000"}, "max_bytes_per_trigger", 1_000_000),
        ({"minOffsetsPerTrigger": "10"}, "min_offsets_per_trigger", 10),
        ({"maxTriggerDelay": "1 minute"}, "max_trigger_delay", timedelta(minutes=1)),
        ({"targetBatchDuration": "10 s"}, "target_batch_duration", timedelta(seconds=10)),
        ({"alignment": "none"}, "alignment", "none"),
        ({"discoveryInterval": "5 minutes"}, "discovery_interval", timedelta(minutes=5)),
        ({"logLevel": "INFO"}, "log_level", "INFO"),
        ({"kafka.isolation.level": "read_committed"}, "kafka", {"isolation.level": "read_committed"}),
        ({"maxDrift": "10 minutes"}, "watermarks", WatermarkStrategy(max_drift=timedelta(minutes=10))),
        ({"maxOutOfOrderness": "500 ms"}, "watermarks", WatermarkStrategy(timedelta(milliseconds=500))),
        ({"idleTimeout": "2 hours"}, "watermarks", WatermarkStrategy(idle_timeout=timedelta(hours=2))),
        (
            {"maxDrift": "1 s", "alignmentGroup": "Join", "alignmentPriority": "-1", "alignmentMembers": "2"},
            "watermarks",
            WatermarkStrategy().with_watermark_alignment(
                max_drift=timedelta(seconds=1), group="Join", priority=-1, members=2
            ),
        ),
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
        ({"maxDrift": "0 ms"}, "the option 'maxDrift' is '0 ms', but it must be at least one millisecond"),
        ({"maxDrift": "-1 hour"}, "the option 'maxDrift' is '-1 hour', but it must be at least one millisecond"),
        ({"maxDrift": "999999999 days"}, "the option 'maxDrift' is '999999999 days'"),
        (
            {"alignmentGroup": "join"},
            "the alignment group is 'join', but a group needs a max drift (options maxDrift, alignmentGroup)",
        ),
        ({"alignmentGroup": "", "maxDrift": "1 s"}, "the option 'alignmentGroup' is '', but it must have 1 to 64"),
        (
            {"alignmentPriority": "1", "maxDrift": "1 s"},
            "members is set, but no alignment group (options alignmentGroup, alignmentPriority, alignmentMembers)",
        ),
        (
            {"alignmentMembers": "0", "alignmentGroup": "j", "maxDrift": "1 s"},
            "the option 'alignmentMembers' is '0', but it must be at least one",
        ),
        ({"alignmentMembers": "two"}, "the option 'alignmentMembers' is 'two': expected a whole number"),
        ({"alignment": "none", "maxDrift": "1 s"}, "maxDrift needs alignment 'event-time', but it is 'none'"),
        ({"alignment": "none", "futureEventTime": "hold"}, "futureEventTime is 'hold', which needs alignment"),
        ({"lateSplits": "catch-up"}, "lateSplits is 'catch-up', which needs maxDrift"),
        (
            {"eventTime": "jsn:/at"},
            "the option 'eventTime' is 'jsn:/at': expected timestamp, header:NAME or json:/",
        ),
        ({"eventTime": "json:at"}, "expected a JSON pointer that begins with '/'"),
        ({"eventTime": "header:"}, "expected the name of a header"),
        ({"eventTimeUnit": "ms"}, "eventTimeUnit is 'ms', but only a header or a JSON field has a unit of its own"),
        ({"eventTime": "json:/at", "eventTimeUnit": "ns"}, "expected 's', 'ms', 'us' or 'iso8601'"),
        ({"badEventTime": "skip"}, "expected 'fail', 'record-timestamp' or 'ignore'"),
        ({"maxFutureSkew": "-1 s"}, "the option 'maxFutureSkew' is '-1 s': expected a duration of 0 or more"),
        ({"futureEventTime": "wait"}, "expected 'ignore', 'hold' or 'fail'"),
        (
            {"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"},
            "minOffsetsPerTrigger is 9, more than maxOffsetsPerTrigger, which is 8",
        ),
        (
            {"targetBatchDuration": "0 s"},
            "the option 'targetBatchDuration' is '0 s': expected a duration of 1 ms or more",
        ),
        ({"discoveryInterval": "-1 s"}, "the option 'discoveryInterval' is '-1 s': expected a duration above 0"),
        ({"lateSplits": "wait"}, "expected 'admit', 'catch-up' or 'fail'"),
        ({"watermarkRows": "true"}, "watermarkRows is set, which needs includeSourceWatermark"),
        ({"idleTimeout": "0 s"}, "the option 'idleTimeout' is '0 s', but it must be more than zero"),
        ({"maxOutOfOrderness": "-1 ms"}, "the option 'maxOutOfOrderness' is '-1 ms', but it must be zero or more"),
        ({"discoveryInterval": "soon"}, "the option 'discoveryInterval' is 'soon': expected a duration"),
        ({"maxOffsetsPerTrigger": "0"}, "the option 'maxOffsetsPerTrigger' is '0': expected a whole number above 0"),
        ({"minPartitions": "many"}, "the option 'minPartitions' is 'many': expected a whole number above 0"),
        ({"failOnDataLoss": "perhaps"}, "the option 'failOnDataLoss' is 'perhaps': expected true or false"),
        ({"alignment": "event_time"}, "is 'event_time': expected 'event-time' or 'none'; did you mean 'event-time'?"),
        ({"logLevel": "LOUD"}, "the option 'logLevel' is 'LOUD': expected 'DEBUG', 'INFO', 'WARNING' or 'ERROR'"),
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
        ({"kafka.bootstrap.servers": "here", "subscribe": " , "}, "the option 'subscribe' is ' , ': it is empty"),
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


@pytest.mark.parametrize(
    ("source", "option", "instead"),
    [
        (KafkaSource, "topic", "set subscribe, subscribePattern or assign"),
        (KafkaSource, "path", "set subscribe, subscribePattern or assign, and load without a path"),
        (KafkaSource, "groupIdPrefix", "positions stand in Spark's checkpoint, and no consumer group takes part"),
        (S3Source, "subscribe", "S3 has no topics; set path to s3://bucket/prefix"),
        (S3Source, "cloudFiles.useNotifications", "set queueUrl"),
    ],
)
def test_an_option_that_is_known_from_elsewhere_gets_what_stands_for_it_here(source, option, instead):
    with pytest.raises(OptionError) as raised:
        source.from_options({option: "x"})
    assert str(raised.value) == f"there is no option '{option.lower()}' here: {instead}"


@pytest.mark.parametrize("source", [KafkaSource, S3Source])
def test_no_option_is_said_to_be_of_elsewhere(source):
    assert not source.foreign_options.keys() & {option.lower() for option in source.valid_options()}
    assert all(option == option.lower() for option in source.foreign_options)


def test_in_python_a_negative_duration_is_shown_as_one():
    with pytest.raises(OptionError, match=r"^max drift is -1:00:00, but it must be at least one millisecond$"):
        WatermarkStrategy(max_drift=timedelta(hours=-1))


def test_a_user_and_a_password_in_what_is_no_server_do_not_show():
    with pytest.raises(OptionError, match="is 'http://here:9092': expected host:port") as raised:
        of(kafka__bootstrap__servers=f"http://me:{SECRET}@here:9092")
    assert SECRET not in str(raised.value)


def test_in_python_errors_name_the_fields():
    with pytest.raises(OptionError, match=r"there is no option 'max_offset_per_trigger'; did you mean 'max_offsets_"):
        KafkaSource(bootstrap_servers="here", subscribe=["orders"], max_offset_per_trigger=5)


@pytest.mark.parametrize("field", ["max_drift", "idle_timeout", "alignment_group", "max_out_of_orderness"])
def test_in_python_what_belongs_to_the_strategy_is_said_to(field):
    with pytest.raises(OptionError, match=f"^'{field}' is a part of watermarks: see WatermarkStrategy"):
        KafkaSource(bootstrap_servers="here", subscribe=["orders"], **{field: None})


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


def test_a_secret_shows_in_no_error_though_another_class_of_that_name_shows_it():
    def made(hidden):
        class Twice(MemorySource):
            token: int = Field(default=0, repr=not hidden)

        return Twice

    for hidden in (True, False), (False, True):
        sources = [made(each) for each in hidden]
        with pytest.raises(OptionError) as raised:
            sources[hidden.index(True)].from_options({"address": "a:b@c:1", "token": SECRET})
        assert SECRET not in str(raised.value)


@pytest.mark.parametrize("kafka", [f"sasl.plain.password={SECRET}", [("sasl.plain.password", SECRET)], {1: SECRET}])
def test_a_secret_in_properties_of_the_wrong_shape_shows_in_no_error(kafka):
    with pytest.raises(OptionError, match="the option 'kafka' is malformed: expected a valid") as raised:
        KafkaSource(bootstrap_servers="here:9092", subscribe=["orders"], kafka=kafka)
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize(
    "proxy",
    [
        f"//user:{SECRET}@here:1080",
        f"user:{SECRET}@here:1080",
        f"ftp://user:{SECRET}@here:1080",
        f"socks5://user:{SECRET}/{SECRET}@here:1080",
        f"socks5://user:{SECRET}@[here",
        f"socks5://user:{SECRET}@here",
        f"socks5://user:{SECRET}@:1080",
    ],
)
def test_a_malformed_proxy_is_refused_and_its_password_not_shown(proxy):
    with pytest.raises(OptionError) as raised:
        of(kafka__proxy__url=proxy)
    assert str(raised.value) == (
        "the option 'kafka.proxy.url' is malformed: expected http, socks5 or socks5h, such as socks5://proxy:1080 or "
        "socks5://user:password@proxy:1080"
    )


@pytest.mark.parametrize(
    ("given", "understood"),
    [
        ("here", "here"),
        ("here:9092, there:9093,", "here:9092,there:9093"),
        ("SASL_SSL://here:9092", "here:9092"),
        ("[::1]:9092,[fe80::1%eth0],::1,10.0.0.1:65535", "[::1]:9092,[fe80::1%eth0],::1,10.0.0.1:65535"),
    ],
)
def test_servers_are_read_as_kafka_python_reads_them(given, understood):
    assert connection_config(given, {}).bootstrap_servers == understood
    assert len(collect_hosts(understood)) == len(understood.split(","))


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        ("localhost:abc", "localhost:abc"),
        ("here:9092,:", ":"),
        ("here:", "here:"),
        (":9092", ":9092"),
        ("here:0", "here:0"),
        ("here:65536", "here:65536"),
        ("here:9092 there:9092", "here:9092 there:9092"),
        ("[::1", "[::1"),
        ("[here]:9092", "[here]:9092"),
        ("http://here/kafka", "http://here/kafka"),
        ("there:9092,http://localhost:9092", "http://localhost:9092"),
        ("INTERNAL://here/kafka", "INTERNAL://here/kafka"),
        ("ftp://here:9092", "ftp://here:9092"),
        (" , ", " , "),
    ],
)
def test_what_is_no_server_is_named(given, wrong):
    with pytest.raises(OptionError) as raised:
        of(kafka__bootstrap__servers=given)
    assert str(raised.value) == (
        f"the option 'kafka.bootstrap.servers' is {wrong!r}: expected host:port, such as broker:9092 or [::1]:9092, "
        "several separated by commas; the port is a number up to 65535"
    )


LOGIN = {"security.protocol": "SASL_SSL", "sasl.plain.username": "me", "sasl.plain.password": SECRET}
MECHANISMS = "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, GSSAPI or AWS_MSK_IAM"


@pytest.mark.parametrize(
    ("properties", "sentence"),
    [
        (LOGIN, f"'kafka.security.protocol' is SASL_SSL, but 'kafka.sasl.mechanism' is missing: expected {MECHANISMS}"),
        (
            {**LOGIN, "sasl.mechanism": "plain"},
            f"'kafka.sasl.mechanism' is malformed: expected {MECHANISMS}; did you mean 'PLAIN'?",
        ),
        ({**LOGIN, "sasl.mechanism": "OAUTHBEARER"}, f"'kafka.sasl.mechanism' is malformed: expected {MECHANISMS}"),
        (
            {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"},
            "is PLAIN, but 'kafka.sasl.plain.username' and 'kafka.sasl.plain.password' are missing",
        ),
        (
            {**LOGIN, "sasl.mechanism": "SCRAM-SHA-512", "sasl.plain.password": ""},
            "'kafka.sasl.mechanism' is SCRAM-SHA-512, but 'kafka.sasl.plain.password' is missing",
        ),
        (
            {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "AWS_MSK_IAM"},
            "'kafka.sasl.mechanism' is AWS_MSK_IAM, but 'kafka.security.protocol' is SASL_PLAINTEXT: expected SASL_SSL",
        ),
        ({"bootstrap.servers": "here:9092"}, "'kafka.bootstrap.servers' is given twice"),
    ],
)
def test_a_login_that_lacks_something_is_refused_before_any_connection(properties, sentence):
    with pytest.raises(OptionError, match=r"^the option ") as raised:
        KafkaSource(bootstrap_servers="here:9092", subscribe=["orders"], kafka=properties)
    assert sentence in str(raised.value)
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_login_by_password_is_understood(mechanism):
    assert connection_config("here:9092", {**LOGIN, "sasl.mechanism": mechanism}).properties == {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "me",
        "sasl_plain_password": SECRET,
    }


def test_every_property_of_the_connection_is_one_that_kafka_python_heeds():
    values = {
        "security.protocol": "SSL",
        "isolation.level": "read_committed",
        "sasl.mechanism": "GSSAPI",
        "proxy.url": "socks5://here:1080",
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
