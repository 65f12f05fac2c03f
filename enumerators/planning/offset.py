"""The offset JSON: the state of a source in Spark's checkpoint.

    {"v": 10,                        the number of this layout
     "source": "kafka",              the connector that wrote it
     "positions": {"orders-0": 17},  per split the next unread position
     "starts": {"orders-0": 3},      only in the offset where a split first appears, or begins again
     "bound": 1700000000000,         ms, exclusive: nothing at or after it was delivered, up to the
                                    disorder of splits that are cut by probing (inexactSplits)
     "watermark": 1699999999999,     the source's watermark in ms
     "idle": ["orders-1"],           splits that held back no other split
     "quiet": {"since": {"orders-5": 17000123}, "begun": 17000000, "pauses": [[3590000, 3600000]], "newest": 16990000},
                                    for the idle timers of the next run, only in bounded runs: since when splits stand
                                    at their ends, and when the run began, both by its wall clock; the pauses between
                                    the last runs in ms, certainly and by the clock; the newest event time
     "late": ["orders-2"],           splits that came behind the watermark and have not caught up
     "removed": ["orders-3"],        splits that are no longer found; their positions are kept
     "ended": true,                  all splits are at their configured ends
     "group": {...},                 the name of this source in its alignment group, and the other members
     "hollow": {"orders-4": 90},     the begin of a long stretch before the position that has no record to align by;
                                    a restart need not search it again
     "hollowBy": "9f3a01c2",         digest of the options for which that is true
     "waits": 1,                     how many times in a row a bounded run has waited for its group
     "badRecords": 7,                reported by executors, from the first batch to the one before this
     "generators": {...},            the state of watermark generators, and the positions up to which they have read
     "horizon": 1700086400000,       ms: from here on event times were in the future, for the last batch that read;
                                    a repeated batch decides by it
     "addOns": {"windows": {...}},   what Spark's state holds of this source's rows, described by each add-on
     "enumerator": {...}}            the snapshot of the connector's enumerator

An offset of up to 100 splits is readable.  In an offset of more, the parts that grow with the splits are packed,
because Spark keeps a hundred offsets, each twice.  JSON is compressed by bzip2, which spends few bytes on digits, and
numbered names become the steps between their numbers: [["orders-", [0, 1, 5]]] stands for orders-0, orders-1 and
orders-6.

    {"v": 10,
     "source": "kafka",              and so on: bound, watermark, ended, hollowBy, waits, badRecords and horizon stay
     "packed": "eJyrVkrMT8pKTS..."}  "splits" and their "positions", and all other keys; instead of "starts" the
                                    splits that are "new", and the distance that each is "read"

Keys without a value are left out and the order of keys is fixed, because for Spark an offset is
new whenever its text is.  The first offset of a query is ``{"v": 10}`` and nothing else.

Whatever changes in these keys, in the group, in the generators or in the snapshot of an enumerator of ours raises
``LAYOUT``: a query never continues from what it would misread.

``Offset`` alone knows these keys.  Only the conformance kit reads them by itself, because it judges them.
"""

from __future__ import annotations

import base64
import bz2
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate, groupby, pairwise
from operator import itemgetter
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from tidegate.alignment.plan import Progress
from tidegate.alignment.splits import Positions, SplitId
from tidegate.enumerators.clocks import Pause
from tidegate.enumerators.contract import Json
from tidegate.errors import CheckpointError

_MOST = 64 << 20  # bytes: the most that a damaged text may decompress to
_COLLECTIONS = 8  # whose order is remembered: plan after plan packs the same names
_DIGITS, _MOST_DIGITS = "0123456789", 18


def pack(parts: Json) -> str:
    """Return parts of an offset as short text; equal parts give equal text."""
    return base64.b64encode(bz2.compress(json.dumps(parts, separators=(",", ":")).encode(), 1)).decode()


def unpack(packed: Any) -> dict[str, Any]:
    """Return the parts from a text that ``pack`` returned.  Raises ValueError or TypeError for anything else."""
    stream = bz2.BZ2Decompressor()
    try:
        content = stream.decompress(base64.b64decode(packed, validate=True), _MOST)
    except OSError as error:
        raise ValueError(packed) from error
    parts = json.loads(content) if stream.eof else None
    if not isinstance(parts, dict):
        raise TypeError(packed)
    return parts


def pack_names(names: Collection[str]) -> tuple[list[Any], list[str]]:
    """Return the stems of names, each with the steps between its numbers, and the names in the order of these."""
    return _packed(tuple(names))


def unpack_names(packed: Iterable[Any]) -> list[str]:
    """Return the names that ``pack_names`` packed, in order."""
    return [stem if n < 0 else f"{stem}{n}" for stem, steps in packed for n in accumulate(steps)]


@lru_cache(_COLLECTIONS)
def _packed(names: tuple[str, ...]) -> tuple[list[Any], list[str]]:
    numbered = sorted((*_numbered(name), name) for name in names)
    by_stem = [(stem, [0, *(n for _, n, _ in same)]) for stem, same in groupby(numbered, itemgetter(0))]
    steps = [[stem, [at - before for before, at in pairwise(numbers)]] for stem, numbers in by_stem]
    return steps, [name for _, _, name in numbered]


def _numbered(name: str) -> tuple[str, int]:
    """Return stem and number of a name; -1: it has no number, or writes it in another way."""
    stem = name.rstrip(_DIGITS)
    digits = name[len(stem) :]
    if not digits or len(digits) > _MOST_DIGITS or (digits[0] == "0" and digits != "0"):
        return name, -1
    return stem, int(digits)


LAYOUT = 10
_MOST_READABLE = 100  # splits
_SMALL = frozenset({"v", "source", "bound", "watermark", "ended", "hollowBy", "waits", "badRecords", "horizon"})
_GROWING = frozenset({"idle", "quiet", "late", "removed", "group", "hollow", "generators", "addOns", "enumerator"})
_NAMES = ("idle", "late", "removed")
_KEYS = _SMALL | _GROWING | {"positions", "starts", "packed"}
_PACKED_KEYS = _GROWING | {"splits", "positions", "new", "read"}
INITIAL_OFFSET: Json = {"v": LAYOUT}


class Hollow(NamedTuple):
    """The begins of long stretches without records to align by, which count for the same options only."""

    begins: Positions = MappingProxyType({})
    options_digest: str = ""


class Quiet(NamedTuple):
    """How long splits had nothing to read in a bounded run, for the idle timers of the next run; empty in other runs.

    since_ms: since when each split has stood at its end, by the wall clock of the run.
    begun_ms: when the run began, by the same clock.
    newest_ms: the greatest event time in all splits then; None: there was none.
    pauses: between the begins of the last runs that stored an offset.
    """

    since_ms: Positions = MappingProxyType({})
    begun_ms: int = 0
    newest_ms: int | None = None
    pauses: Sequence[Pause] = ()

    def to_json(self) -> Json | None:
        """Return the part of the offset; None: the run is not bounded."""
        if not self.begun_ms:
            return None
        newest = {} if self.newest_ms is None else {"newest": self.newest_ms}
        since = dict(sorted(self.since_ms.items()))
        return {"since": since, "begun": self.begun_ms, "pauses": [[*pause] for pause in self.pauses], **newest}

    @classmethod
    def from_json(cls, quiet: Mapping[str, Any]) -> Quiet:
        """Read what ``to_json`` returned.  Raises any of Python's errors if it is broken."""
        if not quiet:
            return cls()
        pauses = tuple(Pause(_int(certain_ms), _int(clock_ms)) for certain_ms, clock_ms in quiet["pauses"])
        return cls(_numbers(quiet["since"]), _int(quiet["begun"]), _optional_int(quiet.get("newest")), pauses)


@dataclass(frozen=True, slots=True)
class Offset:
    """An offset, with the parts that the JSON names.  The first one of a query is empty: ``Offset()``.

    progress: the progress after the plan whose batch ends here.
    add_ons: by add-on, its description of the state that Spark keeps of this source's rows, in this run or earlier.
    horizon_ms: that of the last batch that moves a position; None: there was no such batch.
    """

    source: str = ""
    progress: Progress = field(default_factory=lambda: Progress({}))
    starts: Positions = field(default_factory=dict)
    enumerator: Json | None = None
    group: Json | None = None
    waits: int = 0
    hollow: Hollow = field(default_factory=Hollow)
    generators: Json | None = None
    bad_records: int = 0
    add_ons: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    quiet: Quiet = field(default_factory=Quiet)
    horizon_ms: int | None = None

    @property
    def is_first(self) -> bool:
        """Whether the query begins with it."""
        return not self.source

    def to_json(self) -> Json:
        """Return the offset JSON, canonical: equal offsets give equal texts."""
        if self.is_first:
            return dict(INITIAL_OFFSET)
        progress = self.progress
        is_packed = len(progress.positions) > _MOST_READABLE
        offset = {
            "v": LAYOUT,
            "source": self.source,
            **(
                {}
                if is_packed
                else {"positions": dict(sorted(progress.positions.items())), "starts": _sorted(self.starts)}
            ),
            "bound": progress.bound_ms,
            "watermark": progress.watermark_ms,
            "ended": progress.ended or None,
            "hollowBy": (self.hollow.begins and self.hollow.options_digest) or None,
            "waits": self.waits or None,
            "badRecords": self.bad_records or None,
            "horizon": self.horizon_ms,
            **({"packed": pack(self._packed())} if is_packed else self._others(sorted)),
        }
        return {key: value for key, value in offset.items() if value is not None}

    def _others(self, names: Callable[[Collection[SplitId]], list[Any]]) -> Json:
        """Return the parts that grow with the number of splits, except positions and starts."""
        progress = self.progress
        return {
            "idle": names(progress.idle) or None,
            "quiet": self.quiet.to_json(),
            "late": names(progress.late) or None,
            "removed": names(progress.removed) or None,
            "group": _canonical(self.group),
            "hollow": _sorted(self.hollow.begins),
            "generators": _canonical(self.generators),
            "addOns": _canonical(self.add_ons) or None,
            "enumerator": _canonical(self.enumerator),
        }

    def _packed(self) -> Json:
        positions, starts = self.progress.positions, self.starts
        (splits, in_order), (new, new_in_order) = pack_names(positions), pack_names(starts)
        parts = {
            "splits": splits,
            "positions": [positions[s] for s in in_order],
            "new": None if new == splits else new,
            # Positions in long logs have many digits, but a batch reads a short piece.
            "read": [positions.get(s, 0) - starts[s] for s in new_in_order],
            **self._others(lambda names: pack_names(names)[0]),
        }
        return {name: part for name, part in parts.items() if part is not None}

    @staticmethod
    def recognizes(value: Any) -> bool:
        """Return whether JSON is an offset of a source of tidegate, whose parts this leaves packed."""
        return (
            isinstance(value, dict)
            and "v" in value
            and (value == INITIAL_OFFSET or isinstance(value.get("source"), str))
        )

    @classmethod
    def recognized(cls, value: Any) -> Offset | None:
        """Return the offset that JSON holds; None: it belongs to a source that is not tidegate's.

        Raises CheckpointError for an offset of tidegate that cannot be read.
        """
        return cls.from_json(value) if cls.recognizes(value) else None

    @classmethod
    def from_json(cls, offset: Mapping[str, Any], source: str | None = None) -> Offset:
        """Read an offset JSON.

        source: the connector that continues from it; None: any.

        Raises CheckpointError if ``source`` cannot continue from it.
        """
        version = offset.get("v") if isinstance(offset, Mapping) else None  # of Spark's rate source it is a number
        if not isinstance(version, int) or isinstance(version, bool) or version < 1:
            raise CheckpointError(_not_ours(offset))
        if version != LAYOUT:
            raise CheckpointError(_another_layout(version))
        _check_known(offset, _KEYS)
        if offset == INITIAL_OFFSET:
            return cls()
        if source is not None and offset.get("source") != source:
            raise CheckpointError(
                f"the checkpoint belongs to the source {offset.get('source')!r}, not to {source!r}; "
                "start with a new checkpoint"
            )
        try:
            return cls._parsed(_unpacked(offset) if "packed" in offset else offset)
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise CheckpointError(f"the checkpoint holds a broken offset: {_short(offset)}") from error

    @classmethod
    def _parsed(cls, offset: Mapping[str, Any]) -> Offset:
        """Read an offset of the readable layout.  Raises any of Python's errors if it is broken."""
        return cls(
            str(offset["source"]),
            Progress(
                _numbers(offset["positions"]),
                _optional_int(offset.get("bound")),
                _optional_int(offset.get("watermark")),
                frozenset(_names(offset.get("idle", []))),
                frozenset(_names(offset.get("late", []))),
                frozenset(_names(offset.get("removed", []))),
                bool(offset.get("ended", False)),
            ),
            _numbers(offset.get("starts", {})),
            _optional_json(offset.get("enumerator")),
            _optional_json(offset.get("group")),
            _int(offset.get("waits", 0)),
            Hollow(_numbers(offset.get("hollow", {})), str(offset.get("hollowBy", ""))),
            _optional_json(offset.get("generators")),
            _int(offset.get("badRecords", 0)),
            _described(offset.get("addOns", {})),
            Quiet.from_json(offset.get("quiet", {})),
            _optional_int(offset.get("horizon")),
        )

    def check_add_ons(self, now: Mapping[str, Mapping[str, str]]) -> None:
        """Raise CheckpointError if an add-on of this run would continue from the state of another one."""
        for name, description in now.items():
            check_same_state(name, self.add_ons.get(name, description), description)

    def start_of(self, split: SplitId, before: Offset) -> int:
        """Return the position at which the batch from ``before`` to this offset begins to read a split.

        Raises CheckpointError if neither offset holds it.
        """
        position = self.starts.get(split, before.progress.positions.get(split))
        if position is None:
            raise CheckpointError(f"the checkpoint reads split {split!r} without a start: an offset is broken")
        return position


def check_same_state(
    name: str, stored: Mapping[str, str], now: Mapping[str, str], remedy: str = "set that back"
) -> None:
    """Raise CheckpointError if the stored state of an add-on has another description than that of this run.

    name: the add-on's, in the plural, such as ``windows``.
    remedy: how to make the state fit again.
    """
    both = {part: (stored.get(part, "none"), now.get(part, "none")) for part in {**stored, **now}}
    changes = [f"{part} was {was!r} and is {is_now!r}" for part, (was, is_now) in both.items() if was != is_now]
    if changes:
        raise CheckpointError(
            f"the checkpoint holds the state of other {name}: {', and '.join(changes)}; {remedy}, or begin with a new "
            "checkpoint location"
        )


def _not_ours(offset: Any) -> str:
    sentence = f"the checkpoint holds {_short(offset)}, which is not an offset of a tidegate source"
    if built_in_offset(offset) is None:
        return sentence
    return f"{sentence}, but of Spark's built-in Kafka source; `tidegate migrate` makes a checkpoint that goes on there"


def _another_layout(number: int) -> str:
    if number < LAYOUT:
        return (
            f"the checkpoint is of an older version of tidegate, which this one does not read (layout {number}, and "
            f"this one reads {LAYOUT}); go on with that version, or start with a new checkpoint"
        )
    return (
        f"the checkpoint was written by a newer tidegate (layout {number}, and this one reads {LAYOUT}); upgrade "
        "tidegate, or start with a new checkpoint"
    )


def _check_known(part: Mapping[str, Any], keys: Collection[str]) -> None:
    """Raise CheckpointError for a key of an offset, or of its packed part, that this version does not know."""
    if unknown := part.keys() - set(keys):
        # Without the key, the query would continue from another state than the stored one.
        raise CheckpointError(
            f"the checkpoint was written by a newer tidegate: its offset has {min(unknown)!r}, which this one does "
            "not know; upgrade tidegate, or start with a new checkpoint"
        )


def _unpacked(offset: Mapping[str, Any]) -> dict[str, Any]:
    """Return an offset of the packed layout in the readable one."""
    parts = unpack(offset["packed"])
    _check_known(parts, _PACKED_KEYS)
    splits = unpack_names(parts["splits"])
    new = unpack_names(parts.get("new", parts["splits"]))
    positions = dict(zip(splits, parts["positions"], strict=True))
    read = zip(new, parts["read"], strict=True)
    starts = {s: positions.get(s, 0) - count for s, count in read}
    names = {key: unpack_names(parts[key]) for key in _NAMES if key in parts}
    return {**offset, **parts, **names, "positions": positions, "starts": starts}


def _int(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(value)
    return value


def _optional_int(value: Any) -> int | None:
    return None if value is None else _int(value)


def _numbers(values: Mapping[str, Any]) -> dict[SplitId, int]:
    return {split: _int(value) for split, value in values.items()}


def _names(value: Any) -> list[SplitId]:
    if not isinstance(value, list):
        raise TypeError(value)
    return [str(name) for name in value]


def _sorted(values: Mapping[SplitId, int]) -> Json | None:
    return dict(sorted(values.items())) or None


def _optional_json(value: Any) -> Json | None:
    if not isinstance(value, dict | None):
        raise TypeError(value)
    return value


def _described(value: Any) -> Mapping[str, Mapping[str, str]]:
    if not all(isinstance(description, dict) for description in value.values()):
        raise TypeError(value)
    return dict(value)


def _canonical(snapshot: Mapping[str, Any] | None) -> Any:
    return json.loads(json.dumps(snapshot, sort_keys=True))


def _short(offset: Any) -> str:
    text = repr(offset)
    return text if len(text) <= 200 else text[:200] + "..."


BuiltInOffset: TypeAlias = Mapping[str, Mapping[int, int]]
"""An offset of Spark's built-in Kafka source, by topic and partition: ``{"orders": {"0": 23, "1": 7}}``."""


def built_in_offset(value: Any) -> BuiltInOffset | None:
    """Return the offset that JSON holds; None: it is not an offset of the built-in source."""
    if not isinstance(value, dict) or not value:
        return None
    offset: dict[str, dict[int, int]] = {}
    for topic, partitions in value.items():
        if not isinstance(partitions, dict) or not partitions:
            return None
        if not all(number.isdecimal() and type(at) is int and at >= 0 for number, at in partitions.items()):
            return None
        offset[topic] = {int(number): at for number, at in sorted(partitions.items(), key=lambda item: int(item[0]))}
    return dict(sorted(offset.items()))
