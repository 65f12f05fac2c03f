"""Options: each is understood, and a wrong one gets a sentence that says what is allowed."""

import pickle
import re
from datetime import datetime, timedelta, timezone

import pytest
from pydantic import ValidationError
from pydantic.alias_generators import to_snake

from tests.sources.test_time_options import NEEDED, of
from tidegate import KafkaSource, OptionError, S3Source, WatermarkStrategy
from tidegate.watermarks import AscendingTimestampsWatermarks


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
        ({"maxOffsetsPerTrigger": "1000"}, "max_offsets_per_trigger", 1000),
        ({"failOnDataLoss": "false"}, "fail_on_data_loss", False),
        ({"sourceWatermark": "rows"}, "source_watermark", "rows"),
        ({"eventTime": "json:/at"}, "event_time", "json:/at"),
        ({"eventTime": "header:At", "eventTimeUnit": "us"}, "event_time_unit", "us"),
        ({"maxFutureSkew": "1 hour"}, "max_future_skew", timedelta(hours=1)),
        ({"maxTriggerDelay": "1 minute"}, "max_trigger_delay", timedelta(minutes=1)),
        ({"startingOffsetsByTimestampStrategy": "LATEST"}, "starting_offsets_by_timestamp_strategy", "latest"),
        ({"maxTriggerDelay": "15m"}, "max_trigger_delay", timedelta(minutes=15)),
        ({"maxRecordsPerPartition": "500"}, "max_positions_per_task", 500),
        ({"kafka.isolation.level": "read_committed"}, "kafka", {"isolation.level": "read_committed"}),
        ({"maxDrift": "10 minutes"}, "watermarks", WatermarkStrategy(max_drift=timedelta(minutes=10))),
        ({"maxOutOfOrderness": "500 ms"}, "watermarks", WatermarkStrategy(timedelta(milliseconds=500))),
        ({"idleTimeout": "2 hours"}, "watermarks", WatermarkStrategy(idle_timeout=timedelta(hours=2))),
        (
            {"maxDrift": "1 s", "alignmentGroup": "Join", "alignmentMembers": "2"},
            "watermarks",
            WatermarkStrategy().with_watermark_alignment(max_drift=timedelta(seconds=1), group="Join", members=2),
        ),
        (
            {"maxDrift": "1 s", "alignmentGroup": "Join", "alignmentLocation": "s3://Bucket/x"},
            "watermarks",
            WatermarkStrategy().with_watermark_alignment(
                max_drift=timedelta(seconds=1), group="Join", location="s3://Bucket/x"
            ),
        ),
    ],
)
def test_every_option_is_understood_however_it_is_spelt(options, field, value):
    for spelt in (str, str.lower, str.upper):
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
        (
            {"alignmentGroup": "join"},
            "the alignment group is 'join', but a group needs a max drift (options maxDrift, alignmentGroup)",
        ),
        (
            {"alignmentMembers": "1", "maxDrift": "1 s"},
            (
                "a number of members or a location is set, but no alignment group (options alignmentGroup, "
                "alignmentMembers, alignmentLocation)"
            ),
        ),
        ({"alignment": "none", "maxDrift": "1 s"}, "maxDrift needs alignment 'event-time', but it is"),
        ({"alignment": "none", "futureEventTime": "hold"}, "futureEventTime is 'hold', which needs alignment"),
        (
            {"eventTime": "jsn:/at"},
            "the option 'eventTime' is 'jsn:/at': expected timestamp, header:NAME or json:/",
        ),
        ({"eventTimeUnit": "ms"}, "eventTimeUnit is 'ms', but only a header or a field has a unit of its own"),
        (
            {"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"},
            "minOffsetsPerTrigger is 9, more than maxOffsetsPerTrigger, which is 8",
        ),
        ({"maxOffsetsPerTrigger": "0"}, "the option 'maxOffsetsPerTrigger' is '0': expected a whole number above 0"),
        (
            {"alignment": "event_time"},
            "is 'event_time': expected 'event-time' or 'none'; did you mean 'event-time'?",
        ),
        (
            {"startingOffsets": "first"},
            "the option 'startingOffsets' is 'first': expected earliest, latest, or an offset",
        ),
        (
            {"startingOffsets": '{"orders": 5}'},
            '-2 (earliest) or -1 (latest) for every partition, such as {"orders": {"0": 23, "1": 7}}',
        ),
        ({"startingOffsets": '{"orders": {"0": 5, "0": 6}}'}, "it names '0' twice"),
        ({"startingOffsets": '{"orders": {"0": '}, "malformed JSON at character"),
        *(
            (
                {"startingTimestamp": time},
                f"the option 'startingTimestamp' is '{time}': expected a time in milliseconds",
            )
            for time in ("yesterday", "1.5", "2026-11-22T10:00:00", "2026-13-01T00:00:00Z")
        ),
        ({"subscribe": "['orders']"}, "\"['orders']\" cannot be the name of a topic; expected letters, digits"),
        (
            {"endingOffsets": "last"},
            "the option 'endingOffsets' is 'last': expected latest, or an offset",
        ),
        ({"endingOffsets": "{}"}, "it names no partition; expected an offset of 0 or more, or -1 (latest) for every"),
        ({"endingOffsets": "earliest"}, "endingOffsets says earliest (-2), before any record"),
        ({"subscribePattern": "o.*"}, "the options subscribe and subscribePattern exclude each other"),
        ({"kafka__isolation__level": "committed"}, "expected read_uncommitted or read_committed"),
        (
            {"kafka__isolation__levl": "x"},
            "there is no option 'kafka.isolation.levl'; did you mean 'kafka.isolation.level'?",
        ),
        ({"kafka__auto__offset__reset": "earliest"}, "is of another client of Kafka; here, set startingOffsets"),
        (
            {"schema.registry.url": "http://here", "schema.registry.bearer.auth.token": "token\n"},
            "'schema.registry.bearer.auth.token' is malformed: expected ASCII without a line end",
        ),
        (
            {"archive": "delta:s3://id:hid/den@lake/orders"},
            "the option 'archive' is 'delta:s3://lake/orders': a login in an address of S3 is not used; ",
        ),
        ({"startingOffsets": "{'http://h:80/': 'a@b'}"}, "is \"{'http://h:80/': 'a@b'}\": malformed JSON"),
        ({"archive": "gs://lake"}, "the option 'archive' is 'gs://lake': expected a folder, or s3://bucket/prefix"),
        (
            {"archive": "/lake", "kafka__isolation__level": "read_uncommitted"},
            "kafka.isolation.level is 'read_uncommitted', but an archive holds only committed records",
        ),
    ],
)
def test_a_wrong_option_gets_one_sentence(options, sentence):
    with pytest.raises(OptionError) as raised:
        of(**options)
    assert sentence in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_minimum_of_offsets_stands_without_a_maximum():
    assert of(minOffsetsPerTrigger=str(2**63)).min_rows == 2**63


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"subscribe": "orders"}, "the option 'kafka.bootstrap.servers' is missing"),
        ({"kafka.bootstrap.server": "here"}, "'kafka.bootstrap.server'; did you mean 'kafka.bootstrap.servers'?"),
        ({"kafka.bootstrap.servers": "here"}, "one of the options subscribe, subscribePattern, assign must be set"),
        ({"kafka.bootstrap.servers": "here", "subscribePattern": "("}, "it is not a regular expression: missing )"),
        ({"kafka.bootstrap.servers": "here", "assign": "orders"}, "the option 'assign' is 'orders'"),
        ({"kafka.bootstrap.servers": "here", "assign": '{"orders": []}'}, "it names no partition of 'orders'"),
    ],
)
def test_what_is_missing_is_named(options, sentence):
    with pytest.raises(OptionError) as raised:
        KafkaSource.from_options(options)
    assert sentence in str(raised.value)


@pytest.mark.parametrize("name", [".", "..", "", "a b", "a" * 250])
@pytest.mark.parametrize(
    "options_with",
    [
        lambda name: {"subscribe": ["orders", name]},
        lambda name: {"assign": {"orders": [0], name: [1]}},
    ],
)
def test_a_topic_that_cannot_exist_is_refused_wherever_it_is_named(options_with, name):
    with pytest.raises(OptionError, match=f"{re.escape(repr(name))} cannot be the name of a topic; expected letters"):
        KafkaSource(bootstrap_servers="here:9092", **options_with(name))


@pytest.mark.parametrize(
    ("source", "option", "instead"),
    [
        (KafkaSource, "topics", "set subscribe, subscribePattern or assign"),
        (S3Source, "subscribe", "S3 has no topics; set path to s3://bucket/prefix"),
        (S3Source, "cloudFiles.useNotifications", "set queueUrl"),
    ],
)
def test_an_option_that_is_known_from_elsewhere_gets_what_stands_for_it_here(source, option, instead):
    with pytest.raises(OptionError) as raised:
        source.from_options({option: "x"})
    assert str(raised.value) == f"there is no option '{option.lower()}' here: {instead}"
    if option.isidentifier():
        with pytest.raises(OptionError) as raised:
            source(**{to_snake(option): "x"})
        assert str(raised.value) == f"there is no option '{to_snake(option)}' here: {instead}"


@pytest.mark.parametrize("source", [KafkaSource, S3Source])
def test_no_option_is_said_to_be_of_elsewhere(source):
    assert not source.foreign_options.keys() & {option.lower() for option in source.valid_options()}
    assert all(option == option.lower() for option in source.foreign_options)


@pytest.mark.parametrize(
    ("max_drift", "sentence"),
    [
        (timedelta(microseconds=999), "max drift is 0:00:00.000999, but it must be at least one millisecond"),
        (3600, "max_drift is 3600, but it must be a timedelta, such as timedelta(hours=1)"),
    ],
)
def test_in_python_a_wrong_duration_is_shown_as_it_is(max_drift, sentence):
    with pytest.raises(OptionError, match=f"^{re.escape(sentence)}$"):
        WatermarkStrategy().with_watermark_alignment(max_drift=max_drift)


BOUNDED = WatermarkStrategy.for_bounded_out_of_orderness(timedelta(seconds=1))
GENERATED = WatermarkStrategy.for_generator(AscendingTimestampsWatermarks)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        (
            {"bad_records_path": "a", "bad_event_time": "ignore"},
            "badRecordsPath is set, but badEventTime is 'ignore', which refuses no record; set it to fail or record-",
        ),
        (
            {"bad_records_path": "a", "future_event_time": "fail"},
            "badRecordsPath is set, but futureEventTime is 'fail', which refuses records by the time of the clock",
        ),
        ({"errors.deadletterqueue.topic.name": "dead"}, "set badRecordsPath"),
        (
            {"starting_group_id": "g", "starting_timestamp": 5},
            "the options startingGroupId and startingTimestamp exclude each other; set one of them",
        ),
        ({"watermark_from": "heder:x"}, "did you mean 'header:'"),
        (
            {"watermark_from": "json:/at", "watermarks": BOUNDED},
            "watermarkFrom and maxOutOfOrderness exclude each other",
        ),
        (
            {"watermark_from": "json:/at", "watermarks": GENERATED},
            "watermarkFrom is set, and watermarks has a generator",
        ),
        ({"event_time": "avro:/at"}, "avro: needs a schema registry; set schema.registry.url"),
        ({"event_time": len, "schema_registry_url": "http://a:b@r"}, "url' holds a login; put it into"),
        (
            {"schema_registry_bearer_auth_token": "t"},
            "'schema.registry.url' is missing, and 'schema.registry.bearer.auth.token' needs",
        ),
        (
            {
                "schema_registry_url": "http://r",
                "schema_registry_bearer_auth_token": "t",
                "schema_registry_basic_auth_user_info": "a:b",
            },
            "exclude each other; set one of them",
        ),
    ],
)
def test_in_python_fields_that_contradict_each_other_are_one_sentence(fields, sentence):
    with pytest.raises(OptionError) as raised:
        KafkaSource(bootstrap_servers="here:9092", subscribe=["orders"], **fields)
    assert sentence in str(raised.value)


def test_in_python_errors_name_the_fields():
    with pytest.raises(OptionError, match=r"there is no option 'max_offset_per_trigger'; did you mean 'max_offsets_"):
        KafkaSource(bootstrap_servers="here", subscribe=["orders"], max_offset_per_trigger=5)
    with pytest.raises(OptionError, match=r"there is no option 'servers'; did you mean 'bootstrap_servers'"):
        KafkaSource(servers="here", subscribe=["orders"])
    with pytest.raises(OptionError, match=r"there is no option 'max_drfit'; did you mean 'max_drift'"):
        KafkaSource(bootstrap_servers="here", subscribe=["orders"], max_drfit="1 hour")


PARTS = {
    "max_drift": "1 hour",
    "max_out_of_orderness": timedelta(seconds=5),
    "idle_timeout": "2 minutes",
    "alignment_group": "shop",
    "alignment_members": 2,
    "alignment_location": "/shared",
    "alignment_lease": "3 minutes",
}


def test_in_python_each_option_has_its_own_name_in_snake_case():
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(timedelta(seconds=5)).with_idleness(timedelta(minutes=2))
    group = {"group": "shop", "members": 2, "location": "/shared", "lease": timedelta(minutes=3)}
    source = KafkaSource(bootstrap_servers="here", subscribe=["orders"], **PARTS)
    assert source.watermarks == strategy.with_watermark_alignment(max_drift=timedelta(hours=1), **group)
    assert source.max_drift == timedelta(hours=1)
    for kind in (KafkaSource, S3Source):
        names = {to_snake(option.replace(".", "_")) for option in kind.valid_options() if option != "kafka.*"}
        assert names - {*kind.model_fields, *PARTS} <= {"kafka_bootstrap_servers"}


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        (
            {"max_drift": "1 hour", "watermarks": BOUNDED},
            "max_drift: watermarks is set, and would override it; give one of them",
        ),
        ({"alignment_group": "g"}, "needs a max drift (options max_drift, alignment_group)"),
        ({"maxDrift": "1 hour"}, "there is no option 'maxDrift'; did you mean 'max_drift'"),
    ],
)
def test_in_python_a_wrong_part_of_the_strategy_is_one_sentence(fields, sentence):
    with pytest.raises(OptionError) as raised:
        KafkaSource(bootstrap_servers="here", subscribe=["orders"], **fields)
    assert sentence in str(raised.value)


def test_a_source_is_immutable_and_travels_by_pickle():
    source = of(maxDrift="1 hour", kafka__isolation__level="read_committed")
    assert pickle.loads(pickle.dumps(source)) == source  # noqa: S301 - our own
    with pytest.raises(ValidationError, match="frozen"):
        source.subscribe = ("payments",)


def test_times_may_be_given_as_datetimes_with_a_zone():
    at = datetime(2026, 1, 1, tzinfo=timezone.utc)
    assert KafkaSource(bootstrap_servers="h", subscribe=["o"], starting_timestamp=at).starting_timestamp == at
    with pytest.raises(OptionError, match="starting_timestamp"):
        KafkaSource(bootstrap_servers="h", subscribe=["o"], starting_timestamp=at.replace(tzinfo=None))


@pytest.mark.parametrize(
    ("servers", "sentence"),
    [
        (["a:9092", "b:9092"], "is ['a:9092', 'b:9092']: expected text, several values separated by commas"),
        (9092, "is 9092: expected text"),
    ],
)
def test_what_is_no_text_is_told_in_plain_words(servers, sentence):
    with pytest.raises(OptionError, match=re.escape(f"the option 'bootstrap_servers' {sentence}") + "$"):
        KafkaSource(bootstrap_servers=servers, subscribe=["orders"])
