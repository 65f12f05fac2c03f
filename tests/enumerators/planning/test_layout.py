"""The layout of offsets, with all that others keep in them, and of notes is that of the stored checkpoint.

If this fails, a query would misread its checkpoint: raise ``LAYOUT`` (or ``NOTE_LAYOUT``), and store the new one with
``python -m tests.enumerators.planning.test_layout``.
"""

import json
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from tests.support.logs import Clock
from tidegate.alignment.generators.split_watermark import SplitWatermark
from tidegate.alignment.plan import Progress
from tidegate.enumerators.kafka.topics import KafkaSnapshot
from tidegate.enumerators.notes.group import GroupFolder
from tidegate.enumerators.notes.others import NOTE_LAYOUT
from tidegate.enumerators.planning.offset import LAYOUT, Hollow, Offset, Quiet
from tidegate.enumerators.planning.packed import unpack
from tidegate.enumerators.s3.standing import S3Snapshot
from tidegate.errors import CheckpointError

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
        group = GroupFolder(notes, 10, clocks=Clock().clocks)
        group._run = f"run of {name}"
        group.join({"id": name, "run": "before", "peers": {"gone": ["run of gone", 7]}}, bounded=True)
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
        quiet=Quiet({"orders-1": 1_700_000_000_000}, 1_700_000_000_500, 19),
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
    return {key: shape(part, types) for key, part in schema.items() if key not in ("title", "description", "$defs")}


def shape_of(snapshot):
    schema = TypeAdapter(snapshot).json_schema()
    return shape(schema, schema.get("$defs", {}))


def layouts():
    """Return all layouts as JSON, with their numbers."""
    (readable, note), (packed, _) = full_offset(3), full_offset(101)
    packed = packed.to_json()
    return {
        "layout of offsets": LAYOUT,
        "readable": readable.to_json(),
        "packed": {**packed, "packed": unpack(packed["packed"])},
        "snapshots": {each.__name__: shape_of(each) for each in (KafkaSnapshot, S3Snapshot)},
        "layout of notes": NOTE_LAYOUT,
        "note": note,
    }


def test_the_layout_is_that_of_the_stored_checkpoint_which_goes_on():
    stored = json.loads(STORED.read_text())
    assert json.loads(json.dumps(layouts())) == stored
    assert Offset.from_json(stored["readable"]) == full_offset(3)[0]


@pytest.mark.parametrize("number", range(1, LAYOUT))
def test_a_checkpoint_of_an_older_layout_says_so_and_is_not_called_broken(number):
    stored = {**json.loads(STORED.read_text())["readable"], "v": number, "quietSince": {"orders-5": 17}}
    with pytest.raises(CheckpointError, match="of an older version of tidegate, which this one does not read"):
        Offset.from_json(stored)


if __name__ == "__main__":
    STORED.write_text(json.dumps(layouts(), indent=1) + "\n")
