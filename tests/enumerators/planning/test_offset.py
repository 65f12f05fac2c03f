"""The JSON of offsets, of notes and of progress: canonical, complete, and refused when it is not ours."""

import base64
import bz2
import json
import random
import secrets
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from tests.support.logs import StillClock
from tests.support.progresses import MINUTE, NOON, report
from tidegate import SourceProgress
from tidegate.alignment.generators import SplitWatermark
from tidegate.alignment.plan import Progress
from tidegate.enumerators.clocks import Pause
from tidegate.enumerators.kafka.topics import KafkaSnapshot
from tidegate.enumerators.notes.group import GroupFolder
from tidegate.enumerators.notes.others import NOTE_LAYOUT
from tidegate.enumerators.planning import offset as offset_module
from tidegate.enumerators.planning.offset import INITIAL_OFFSET, LAYOUT, Hollow, Offset, Quiet, pack, unpack
from tidegate.enumerators.planning.source_progress import MostBehind, SplitDetail
from tidegate.enumerators.s3.standing import S3Snapshot
from tidegate.enumerators.s3.state.seen_objects import SeenObjects
from tidegate.errors import CheckpointError
from tidegate.readers.objects.values import CHUNK_SCHEMA, S3Object

WINDOWS = {"windows": {"assigner": "TumblingEventTimeWindows(size=5000)"}}
splits = st.text(max_size=5) | st.from_regex(r"(orders-|a00|a|)([0-9]{1,2}|9{30})", fullmatch=True)
positions = st.dictionaries(splits, st.integers(0, 2**63 - 1), max_size=4)
times = st.none() | st.integers(-(2**63), 2**63 - 1)
offsets = st.builds(
    Offset,
    st.just("kafka"),
    st.builds(Progress, positions, times, times, st.frozensets(splits, max_size=3)),
    positions,
    st.none() | st.dictionaries(splits, st.integers() | splits, max_size=2),
    waits=st.integers(0, 3),
    hollow=st.just(Hollow()) | st.builds(Hollow, positions.filter(bool), st.sampled_from(["", "9f3a01c2"])),
    bad_records=st.integers(0, 3),
    add_ons=st.sampled_from([{}, WINDOWS]),
)


def turned(offset):
    """Return an equal offset that was made in another order."""
    positions = dict(reversed(offset.progress.positions.items()))
    starts = dict(reversed(offset.starts.items()))
    return replace(offset, progress=replace(offset.progress, positions=positions), starts=starts)


@given(offsets, st.sampled_from([-1, 2, 100]))
def test_what_is_written_is_read_back_and_does_not_depend_on_the_order(offset, readable):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(offset_module, "_MOST_READABLE", readable)  # splits; an offset of more is packed
        text = json.dumps(offset.to_json())
        assert ("packed" in json.loads(text)) == (len(offset.progress.positions) > readable)
        assert Offset.from_json(json.loads(text), "kafka") == Offset.recognized(json.loads(text)) == offset
        assert json.dumps(turned(offset).to_json()) == text


@pytest.mark.parametrize("topics", [1, 1_000])
@pytest.mark.parametrize("is_first", [True, False])
def test_the_offset_of_ten_thousand_partitions_has_less_than_120_kib(topics, is_first):
    """Spark keeps a hundred of them, each twice.  The digits of real positions are random."""
    dice = random.Random(topics)
    names = [f"company.team.topic-{topic:04}-{number}" for topic in range(topics) for number in range(10_000 // topics)]
    positions = {name: dice.randrange(10**8, 10**9) for name in names}
    starts = {name: at - dice.randrange(3_000) for name, at in positions.items()} if is_first else {}
    ids = [secrets.token_urlsafe(16) for _ in range(topics)]
    epochs = [4] * (10_000 // topics)
    topic_states = {f"company.team.topic-{topic:04}": {"id": of, "epochs": epochs} for topic, of in enumerate(ids)}
    offset = Offset("kafka", Progress(positions, 1_700_000_000_000), starts, {"topics": topic_states})
    assert len(json.dumps(offset.to_json())) < 120 << 10
    assert Offset.from_json(offset.to_json()) == offset


def test_the_initial_offset_says_nothing_and_is_of_any_source():
    assert Offset().to_json() == INITIAL_OFFSET == {"v": LAYOUT}
    assert Offset.from_json(INITIAL_OFFSET, "anything") == Offset.recognized(INITIAL_OFFSET) == Offset()


@pytest.mark.parametrize(
    "value", [None, 17, {"orders": {"0": 7}}, {"v": {"0": 7}}, {"v": {"0": 7}, "source": {"0": 1}}]
)
def test_the_offset_of_another_source_is_not_recognized(value):
    assert Offset.recognized(value) is None


def written(splits=1, **changes):
    return {**Offset("kafka", Progress({f"a-{number}": 1 for number in range(splits)})).to_json(), **changes}


def deflated(content):
    return base64.b64encode(bz2.compress(content)).decode()


@pytest.mark.parametrize(
    ("offset", "sentence"),
    [
        (written(v=LAYOUT + 1), "written by a newer tidegate"),
        (written(v=LAYOUT - 1, quietSince={}), "of an older version of tidegate, which this one does not read"),
        ({"v": 1}, "of an older version of tidegate, which this one does not read"),
        (written(101, packed="eJw"), "broken offset"),
        (written(101, packed=deflated(b"[]")), "broken offset"),
        (written(101, packed=deflated(b"[" * 100_000)), "broken offset"),
        (written(101, packed=pack({"splits": [["a", [0, 1]]], "positions": [1], "read": [0, 0]})), "broken offset"),
        (written(101, packed=deflated(b"{}" + bytes(65 << 20))), "broken offset"),
        (written(fences=[1]), "written by a newer tidegate: its offset has 'fences', which this one does not know"),
        (
            written(101, packed=pack({"splits": [], "fences": [1]})),
            "written by a newer tidegate: its offset has 'fences', which this one does not know",
        ),
        (written(source="s3"), "belongs to the source 's3', not to 'kafka'"),
        (written(positions=[1]), "broken offset"),
        (written(positions={"a": "x"}), "broken offset"),
        (written(positions={"a": True}), "broken offset"),
        (written(bound="soon"), "broken offset"),
        (written(v="one"), "not an offset of a tidegate source"),
        ({"orders": {"0": 7}}, "not an offset of a tidegate source, but of Spark's built-in .*`tidegate migrate`"),
        ({"logOffset": 7}, "not an offset of a tidegate source$"),
        (7, "the checkpoint holds 7, which is not an offset of a tidegate source$"),  # as Spark's rate source has it
        ({"orders": {str(p): 7 for p in range(1000)}}, "not an offset of a tidegate source"),
    ],
)
def test_what_cannot_be_continued_is_refused_in_one_short_sentence(offset, sentence):
    with pytest.raises(CheckpointError, match=sentence) as raised:
        Offset.from_json(offset, "kafka")
    assert len(str(raised.value)) < 400


STORED = Path(__file__).with_name("layout.json")


class Notes:
    repeat_s = 0.0

    def __init__(self):
        self.stored = {}

    def read(self, name):
        return self.stored.get(name)

    def notes(self):
        return [*self.stored.items()]

    def sweep(self):
        pass

    def write(self, name, note):
        self.stored[name] = note


def full_offset(splits):
    """Return an offset that has every part."""
    notes = Notes()
    for name in ("ahead", "behind"):
        group = GroupFolder(notes, 10, clocks=StillClock().clocks)
        group._run = f"run of {name}"
        stored = {"id": name, "run": "before", "origin": f"first {name}", "peers": {"gone": ["run of gone", 7]}}
        group.join(stored, bounded=True)
        group.tell(5)
    group.bound(5, 5)
    positions = {f"orders-{number}": 7 + number for number in range(splits)}
    said = SplitWatermark(watermark_ms=5, state={"seen": 1}, is_idle=True).to_json()
    offset = Offset(
        "kafka",
        Progress(
            positions, 20, 10, frozenset({"orders-1"}), frozenset({"orders-2"}), frozenset({"orders-0"}), ended=True
        ),
        starts={"orders-0": 3, "orders-1": 4},
        enumerator={"of an enumerator": 1},
        group=group.snapshot(),
        waits=1,
        hollow=Hollow({"orders-2": 1}, "9f3a01c2"),
        generators={"by": "Marks", "splits": {"orders-0": said}, "unseen": {"orders-0": 6}},
        bad_records=2,
        add_ons={"windows": {"assigner": "TumblingEventTimeWindows(size=5000)"}},
        quiet=Quiet({"orders-1": 1_700_000_000_000}, 1_700_000_000_500, 19, (Pause(1_800_000, 3_600_000),)),
        horizon_ms=1_700_000_100_000,
    )
    return offset, notes.stored["behind"]


def shape(schema, types):
    """Return a JSON schema without names of types and without descriptions."""
    if isinstance(schema, list):
        return [shape(part, types) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return shape(types[schema["$ref"].rpartition("/")[2]], types)
    # Newer versions of Pydantic say so, and 2.10 does not.
    parts = {key: part for key, part in schema.items() if (key, part) != ("additionalProperties", False)}
    return {key: shape(part, types) for key, part in parts.items() if key not in ("title", "description", "$defs")}


def shape_of(snapshot):
    schema = TypeAdapter(snapshot).json_schema()
    return shape(schema, schema.get("$defs", {}))


def layouts():
    """Return all layouts as JSON, with their numbers."""
    (readable, note), (packed, _) = full_offset(3), full_offset(101)
    packed, seen = packed.to_json(), SeenObjects(None)
    seen.add([S3Object("in/a", 3, "etag", 1_700_000_000_000), S3Object("in/b", 3, "", 1_700_000_000_000)])
    return {
        "layout of offsets": LAYOUT,
        "readable": readable.to_json(),
        "packed": {**packed, "packed": unpack(packed["packed"])},
        "snapshots": {each.__name__: shape_of(each) for each in (KafkaSnapshot, S3Snapshot)},
        "layout of notes": NOTE_LAYOUT,
        "note": note,
        "files of a state location": {
            "seen objects": [run.to_bytes().hex() for run in seen.runs],
            "manifest": [f"{of.name} {of.type}{'' if of.nullable else ' not null'}" for of in CHUNK_SCHEMA],
        },
    }


def test_the_layout_is_that_of_the_stored_checkpoint_which_goes_on():
    stored = json.loads(STORED.read_text())
    assert json.loads(json.dumps(layouts())) == stored
    assert Offset.from_json(stored["readable"]) == full_offset(3)[0]


if __name__ == "__main__":
    STORED.write_text(json.dumps(layouts(), indent=1) + "\n")


START = datetime(2023, 11, 15, 12, tzinfo=timezone.utc)


def typed(**fields):
    return SourceProgress.from_json(report(**fields))


def test_times_are_utc_and_durations_have_no_unit_to_know():
    said = typed(
        paused={"orders-2": NOON}, timeToDeletion={"orders-2": 5 * MINUTE}, metrics={"approximateQueueSize": 7}
    )
    assert (said.low, said.bound, said.watermark) == (
        START,
        START + timedelta(hours=1),
        START - timedelta(minutes=1),
    )
    assert said.event_time_lag == timedelta(hours=5)
    assert said.most_behind == MostBehind("orders-0", 900, timedelta(hours=5))
    assert said.paused == {"orders-2": START}
    assert said.time_to_deletion == {"orders-2": timedelta(minutes=5)}
    assert said.by_split == {"orders-0": SplitDetail("reading", START + timedelta(hours=1), 900)}
    assert said.metrics == {"approximateQueueSize": 7}


@pytest.mark.parametrize(("time_ms", "year"), [(2**63 - 1, 9999), (-(2**63), 1)])
def test_a_time_that_python_cannot_hold_becomes_its_limit(time_ms, year):
    assert typed(bound=time_ms).bound.year == year
    assert typed(eventTimeLag=2**63 - 1).event_time_lag == timedelta.max


def test_what_is_written_is_read_and_what_is_empty_is_not_written():
    generated = {"heldBy": None, "readHere": 0, "rows": 9, "lateRows": 3, "bySplit": {"orders-0": [NOON, "idle"]}}
    completeness = {"until": NOON, "heldFrom": None}
    for written in (
        report(),
        report(watermark=None, heldBy=None, mostBehind=None, spread=None),
        report(generated=generated, completeness=completeness, badRecordsTotal=0, metrics={"a": 1, "b": 0.5}),
    ):
        assert SourceProgress.from_json(written).to_json() == written
    assert typed(orders={"0": 3}, overshoot=0, metrics={}) == typed()


def test_lags_up_to_the_commit_are_known_once_it_is():
    assert (typed().current_emit_event_time_lag, typed().watermark_lag) == (None, None)
    said = SourceProgress.from_json(report(), START + timedelta(hours=3))
    assert (said.current_emit_event_time_lag, said.watermark_lag) == (timedelta(hours=3), timedelta(hours=3, minutes=1))
    said = SourceProgress.from_json(report(), START - timedelta(hours=1))  # the event times are ahead of the clock
    assert (said.current_emit_event_time_lag, said.watermark_lag) == (timedelta(), timedelta())
    said = SourceProgress.from_json(report(oldestEventTime=None, watermark=None), START)
    assert (said.current_emit_event_time_lag, said.watermark_lag) == (None, None)
