# ruff: noqa: RUF005 - what a row says, and what it changes
"""Sins as patches of the reference connector: a text in its code, and the text instead."""

from functools import cache
from pathlib import Path

from tests.conformance.memory import reference
from tests.conformance.mutants.mutant import Mutant

_TEXT = Path(reference.__file__).read_text(encoding="utf-8")

FOUND = 'self._client.ask("splits")'
RETURN_FOUND = f"return {FOUND}"
BEGINS = "extent.end if at_end else extent.begin"
EXTENT = "Extent(begin, end, complete=complete)"
PEEKED = "next(self._heads(split, position, horizon), None)"
AT_OR_AFTER = "if h.event_time_ms >= event_time_ms"
LOOKED_UP = "{s: next((h for h in heads[s] if h.event_time_ms >= event_time_ms), None) for s in splits}"
USABLE = "return self.usable_time_ms("
READ = "yield _batch([record.row for record in records])"
VALUES = "[row.value for row in rows]"
STATE = 'self._state = {"v": 1, "store": self._client.name}'
OTHER_STORE = "if state is not None and ("
LOSS = 'raise DataLossError(f"rows of {wanted.split_id} from {position} on are gone; see failOnDataLoss")'
IGNORING = "{'bad_event_time': 'ignore', 'future_event_time': 'ignore'}"


def patched(*changes):
    """Return the harness of a copy of the reference with other texts: old, new, old, new ..."""

    @cache
    def copied():
        text = _TEXT
        for old, new in zip(changes[::2], changes[1::2], strict=True):
            assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in the reference"
            text = text.replace(old, new)
        names = {"__name__": "__main__"}  # so that its classes are pickled as a whole
        exec(compile(text, "patched", "exec"), names)  # noqa: S102
        return names["MemoryHarness"]

    def harness():
        return copied()()

    return harness


def method(text):
    """Return the change that gives the enumerator another method: its head, and what it returns."""
    head, _, result = text.partition(" -> ")
    return "    def snapshot(self):", f"    def {head}:\n        return {result}\n\n    def snapshot(self):"


PATCHES = [
    ("SPLIT-1", "a late split is read from its end", "2 missing", BEGINS, "extent.begin if first else extent.end"),
    ("SPLIT-1", "new splits begin as the option says", "all are missing, 1#0 to 1#1", "= first and ", "= "),
    ("SPLIT-3", "only the first page of splits is found", "2 missing", FOUND, f"{FOUND}[:3]"),
    ("SPLIT-4", "splits are named by numbers", "named by int", FOUND, f"range(len({FOUND}))"),
    ("SPLIT-4", "names are no UTF-8", "as UTF-8", FOUND, f'["\\udcff" + name for name in {FOUND}]'),
    ("SPLIT-11", "a split is never settled", "is never settled", EXTENT, f"{EXTENT[:-1]}, settled=False)"),
    ("SPLIT-11", "numbers are no ints", "not an int but float", EXTENT, "Extent(begin, float(end), complete=complete)"),
    ("SPLIT-12", "empty splits have no start", "does not answer for split-2")
    + ("self.extents(splits).items()}", "self.extents(splits).items() if extent.end > extent.begin}"),
    ("SPLIT-12", "starts lie behind the first row", "2 missing", BEGINS, "min(extent.begin + 1, extent.end)"),
    (
        "SPLIT-14",
        "splits are complete while they grow",
        "though rows can still come",
        "complete=complete",
        "complete=True",
    ),
    ("SPLIT-12", "an empty split starts behind its first row", "1 missing", BEGINS)
    + ("extent.begin + (extent.begin == extent.end)",),
    ("STATE-7", "a stream stops at the present end", "are never planned")
    + method("stops(self, splits) -> {split: extent.end for split, extent in self.extents(splits).items()}"),
    ("SPLIT-17", "extents fail for a split that is gone", "KeyError")
    + ("in answers.items()}", "in {split: answers[split] for split in splits}.items()}"),
    ("SPLIT-17", "splits that are gone are still found", "deleted, but", RETURN_FOUND)
    + (f"self.__dict__.setdefault('found', set()).update({FOUND}); return self.found",),
    ("SPLIT-17", "unread splits are forgotten", "never read", *method("forget(self, removed) -> removed.keys()")),
    ("SPLIT-17", "a deleted split is not lost", "lost() names nothing", *method("lost(self, removed) -> ()")),
    ("SPLIT-20", "a split begins behind its end", "past its end", "Extent(begin,", "Extent(begin + (begin == end),"),
    ("READ-1", "rows come backwards", "comes after 0#6", READ, READ.replace("records]", "records[::-1]]")),
    (
        "READ-4",
        "ranges are kept by split",
        "missing",
        "in task.ranges",
        "in {r.split_id: r for r in task.ranges}.values()",
    ),
    ("READ-9", "rows hold the time of reading", "column 'at' differs", "row.event_time_ms * 1_000")
    + ("__import__('time').time_ns() // 1_000",),
    (
        "READ-15",
        "values are stripped",
        "blanks was written",
        VALUES,
        "[row.value and row.value.strip() for row in rows]",
    ),
    ("READ-15", "huge values are cut", "a text of 1,048,576 characters", VALUES)
    + ("[row.value and row.value[: 1 << 20] for row in rows]",),
    ("READ-18", "rows before 1970 are left out", "2 missing", READ)
    + (READ.replace("records]", "records if (record.row.event_time_ms or 0) >= 0]"),),
    ("READ-21", "a column is tidegate's", "a column source_watermark", "return _SCHEMA")
    + ('return _SCHEMA.append(pa.field("source_watermark", pa.timestamp("us", "UTC")))',),
    ("READ-21", "a column that is never null holds nulls", "'value' is not nullable", '("value", pa.string())')
    + ('pa.field("value", pa.string(), nullable=False)',),
    ("READ-24", "a range is one batch", "20 of 20 rows", "end, _BATCH_BYTES", "end, None"),
    ("READ-26", "times are an hour off", "read with one 3,600,000 ms later", "row.event_time_ms * 1_000")
    + ("(row.event_time_ms + 3_600_000) * 1_000",),
    ("TIME-1", "peek is blind at holes", "says none", PEEKED)
    + ("next((h for h in self._heads(split, position, horizon) if h.position == position), None)",),
    ("TIME-3", "a missing time is taken for 0", "peek() of 'split-0' at 0 says position 1", USABLE)
    + (f"if record.row.event_time_ms is None:\n            return 0\n        {USABLE}",),
    ("TIME-3", "rows in the future are aligned", "at 0 says position 0 of +5490892800 s", "            horizon,\n")
    + ("            Horizon(),\n",),
    ("TIME-6", "lookup finds what is after the time", "of +0 s says position 1", AT_OR_AFTER)
    + (AT_OR_AFTER.replace(">=", ">"),),
    ("TIME-18", "a missing time fails nothing", "0#2 is delivered with badEventTime=fail", USABLE)
    + (f"if record.row.event_time_ms is None:\n            return None\n        {USABLE}",),
    ("TIME-18", "a time in the future fails nothing", "0#2 is delivered with badEventTime=fail", USABLE)
    + (f"return self.model_copy(update={IGNORING}).usable_time_ms(",),
    ("TIME-26", "peek looks at a thousand rows", "peek() finds +0 s, but", PEEKED)
    + ("next((h for h in self._heads(split, position, horizon) if h.position < position + 1_000), None)",),
    (
        "ALIGN-1",
        "the bound is inclusive",
        "should have been paused",
        AT_OR_AFTER,
        AT_OR_AFTER.replace(">=", ">"),
    ),
    ("ALIGN-25", "what is held is not found", "finds a row at None")
    + method("held(self, ranges, horizon) -> {r.split_id: None for r in ranges}"),
    ("WHOLE-1", "paused splits are read", "it should have been paused", LOOKED_UP, "dict.fromkeys(splits)"),
    ("WHOLE-1", "a restart forgets all splits but one", "3 rows are not delivered", RETURN_FOUND)
    + (f"return sorted({FOUND})[: 1 if self.restored else None]", STATE, f"{STATE}; self.restored = state is not None"),
    ("STATE-7", "a split is lost on restart", "not all delivered", RETURN_FOUND)
    + (f"return {FOUND}[: -1 if self.restored else None]", STATE, f"{STATE}; self.restored = state is not None")
    + method("lost(self, removed) -> ()"),
    ("SPLIT-1", "a restart takes its first look for a new query", "2 rows were written and not all delivered")
    + ("at_end = first", "first, self.looked = not self.__dict__.get('looked'), True; at_end = first"),
    ("STATE-16", "a checkpoint of another place is taken", "4 rows were written and not all delivered", OTHER_STORE)
    + ("if False and (",),
    (
        "LIFE-4",
        "closing twice fails",
        "for the second time",
        "        self._client.close()",
        "        del self._client",
    ),
    ("LIFE-11", "lost rows are left out", "left out without a word", LOSS, "return"),
    (
        "LIFE-11",
        "an error names no split",
        "does not name the split",
        LOSS,
        'raise DataLossError("some rows are gone")',
    ),
    (
        "LIFE-12",
        "a secret in the offset",
        "a secret is in an offset",
        STATE,
        'self._state = {"address": source.address}',
    )
    + (OTHER_STORE, "if False and ("),
]

MUTANTS = [Mutant(sin, killer, (words,), patched(*changes)) for killer, sin, words, *changes in PATCHES]
