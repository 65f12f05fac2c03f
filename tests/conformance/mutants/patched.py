# ruff: noqa: RUF005 - what a row says, and what it changes
"""Sins as patches of the reference connector: a text in its code, and the text instead."""

from functools import cache
from pathlib import Path

from tests.conformance.memory import reference
from tests.conformance.references import Mutant
from tidegate.conformance.lab.lab import IN_THE_YEAR_2200_MS

_TEXT = Path(reference.__file__).read_text(encoding="utf-8")

FOUND = 'self._client.ask("splits")'
RETURN_FOUND = f"return {FOUND}"
BEGINS = "extent.end if at_end else extent.begin"
EXTENT = "Extent(begin, end, complete=complete)"
FIRST_HEAD = "next(self._heads(split, position, horizon), None)"
AT_OR_AFTER = "if h.event_time_ms >= event_time_ms"
USABLE = "return self.usable_time_ms("
READ = "yield _batch([record.row for record in records])"
VALUES = "[row.value for row in rows]"
STATE = 'self._state = {"v": 1, "store": self._client.name}'
OTHER_STORE = "if state is not None and ("
LOSS = 'raise DataLossError(f"rows of {wanted.split_id} from {position} on are gone; see failOnDataLoss")'
ASKED = "for wanted in task.ranges"
PAGE = "end = min(position + _BATCH_ROWS, wanted.end)"
BEGIN = "extent[0] > position"
READ_RANGE = "yield from self._read(client, wanted)"
READS_ON = "position = wanted.start"
RETURN_STATE = "return self._state"
DEADLINE = "self.deadline.total_seconds()"
ERRORS = "import CheckpointError, DataLossError"
WITH_CONNECTOR_ERROR = (ERRORS, "import CheckpointError, ConnectorError, DataLossError")
IGNORING = "{'bad_event_time': 'ignore', 'future_event_time': 'ignore'}"


def changed(text, changes):
    """Return a text with other parts: old, new, old, new ..."""
    for old, new in zip(changes[::2], changes[1::2], strict=True):
        assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in the text"
        text = text.replace(old, new)
    return text


def patched(*changes):
    """Return the harness of a copy of the reference with these changes."""

    @cache
    def copied():
        names = {"__name__": "__main__"}  # so that its classes are pickled as a whole
        exec(compile(changed(_TEXT, changes), "patched", "exec"), names)  # noqa: S102
        return names["MemoryHarness"]

    def harness():
        return copied()()

    return harness


def method(text, before="    def snapshot(self):"):
    """Return the change that gives a class another method: its head, and what it returns."""
    head, _, result = text.partition(" -> ")
    return before, f"    def {head}:\n        return {result}\n\n{before}"


def renamed(prefix):
    """Return the changes with which splits have a prefix, which ends in / and is made of the split's name ``s``."""
    return (
        *(RETURN_FOUND, f"return [str({prefix}) + '/' + s for s in {FOUND}]"),
        *('self._client.ask("extents", list(splits))', "self.by_name(splits)"),
        *method(
            "by_name(self, splits) -> {s: found for s in splits for found in "
            "self._client.ask('extents', [s.rpartition('/')[2]]).values()}"
        ),
        *(ASKED, "for wanted in [type(r)(r.split_id.rpartition('/')[2], r.start, r.end) for r in task.ranges]"),
    )


PATCHES = [
    ("SPLIT-1", "only the first page of splits is found", "2 rows were written and not all", FOUND, f"{FOUND}[:3]"),
    ("SPLIT-11", "splits are named by numbers", "named by int", FOUND, f"range(len({FOUND}))"),
    ("SPLIT-11", "names are of two types", "named by int", FOUND, f"[*{FOUND}, 1]"),
    ("SPLIT-11", "a name is empty", "has an empty name", FOUND, f'[*{FOUND}, ""]'),
    ("SPLIT-11", "names are no UTF-8", "as UTF-8", FOUND, f'["\\udcff" + name for name in {FOUND}]'),
    ("SPLIT-11", "a split is never settled", "is never settled", EXTENT, f"{EXTENT[:-1]}, settled=False)"),
    ("SPLIT-11", "numbers are no ints", "not an int but float", EXTENT, "Extent(begin, float(end), complete=complete)"),
    ("SPLIT-12", "empty splits have no start", "does not answer for split-2")
    + ("self.extents(splits).items()}", "self.extents(splits).items() if extent.end > extent.begin}"),
    ("SPLIT-12", "starts lie behind the first row", "2 missing", BEGINS, "min(extent.begin + 1, extent.end)"),
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
    ("READ-1", "rows come backwards", "out of order", READ, READ.replace("records]", "records[::-1]]")),
    (
        "READ-4",
        "ranges are kept by split",
        "missing",
        "in task.ranges",
        "in {r.split_id: r for r in task.ranges}.values()",
    ),
    ("READ-9", "rows hold the time of reading", "they differ from row 0", "row.event_time_ms * 1_000")
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
    ("READ-26", "times are an hour off", "read with 951829200000", "row.event_time_ms * 1_000")
    + ("(row.event_time_ms + 3_600_000) * 1_000",),
    ("TIME-1", "peek is blind at holes", "says none", FIRST_HEAD)
    + ("next((h for h in self._heads(split, position, horizon) if h.position == position), None)",),
    ("TIME-1", "a missing time is taken for 0", "peek() of 'split-0' at 0 says position 1", USABLE)
    + (f"if record.row.event_time_ms is None:\n            return 0\n        {USABLE}",),
    ("TIME-1", "rows in the future are aligned", "at 0 says position 0 of +5490892800 s", "            horizon,\n")
    + ("            Horizon(),\n",),
    ("TIME-6", "lookup finds what is after the time", "of +0 s says position 1", AT_OR_AFTER)
    + (AT_OR_AFTER.replace(">=", ">"),),
    ("TIME-18", "a missing time fails nothing", "0#2 is delivered with badEventTime=fail", USABLE)
    + (f"if record.row.event_time_ms is None:\n            return None\n        {USABLE}",),
    ("TIME-18", "a time in the future fails nothing", "0#2 is delivered with badEventTime=fail", USABLE)
    + (f"return self.model_copy(update={IGNORING}).usable_time_ms(",),
    ("ALIGN-1", "a split counts for earlier than it is", "should have been paused", USABLE)
    + ("return (-40_000 if split.endswith('1') else 0) + self.usable_time_ms(",),
    ("ALIGN-25", "latest is that of a row that is held", "the watermark is +")
    + method(f"latest(self, ends, horizon) -> dict.fromkeys(ends, {IN_THE_YEAR_2200_MS})"),
    ("WHOLE-1", "latest is that of all splits", "has not waited for its split", "max(of_split, default=None) for")
    + ("max((at for of in times.values() for at in of), default=None) for",),
    ("ALIGN-25", "what is held is not found", "finds a row at None")
    + method("held(self, ranges, horizon) -> {r.split_id: None for r in ranges}"),
    ("WHOLE-1", "a restart forgets all splits but one", "rows are not delivered", RETURN_FOUND)
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
    ("SPLIT-11", "names hold the size of a split", "is not found any more")
    + renamed("self._client.ask('extents', [s])[s][1]"),
    ("READ-11", "names hold a hash", "found here and in another process", *renamed("hash(s)")),
    ("SPLIT-11", "ends go back", "the end of 'split-0' went back", EXTENT)
    + (EXTENT.replace("end,", "max(begin, end - (next(self.asked) % 4 == 0)),"),)
    + (STATE, f"{STATE}; self.asked = __import__('itertools').count(1)"),
    ("WHOLE-1", "a split that goes ends the query in spite of the option", "a split is gone", RETURN_FOUND)
    + (
        (
            f"before, self.known = self.__dict__.get('known', []), {FOUND}\n"
            "        if {*before} - {*self.known}:\n            raise DataLossError('a split is gone')\n"
            "        return self.known"
        ),
    ),
    ("READ-1", "the last row of a page is lost", "2 missing", READ, READ.replace("records]", "records[:-1]]")),
    ("READ-3", "the end of a range is inclusive", "position 0 of split-0 has 0#0, 0#1", PAGE)
    + (PAGE.replace("wanted.end", "wanted.end + 1"),),
    ("READ-3", "no rows is no limit", "from 0 to 0", ASKED)
    + ("for wanted in [type(r)(r.split_id, r.start, r.end + 100 * (r.start == r.end)) for r in task.ranges]",),
    ("READ-4", "ranges are joined over gaps", "never asked for", ASKED)
    + (
        (
            "for wanted in {a.split_id: type(a)(a.split_id, min(b.start for b in task.ranges if b.split_id == "
            "a.split_id), max(b.end for b in task.ranges if b.split_id == a.split_id)) for a in task.ranges}.values()"
        ),
    ),
    ("READ-7", "reading ends at a hole", "4 missing", READ)
    + (
        READ.replace(
            "records]", "records[: next((n for n, r in enumerate(records) if r.position > position + n), None)]]"
        ),
    ),
    ("READ-9", "reading goes on to the present end", "5 rows first, then 7", PAGE)
    + (PAGE.replace("wanted.end", "extent[1] if wanted.end > 3 else wanted.end"),),
    ("READ-14", "a row is skipped after a loss", "1 missing", 'ask("records", wanted.split_id, position, end, _BATCH')
    + ('ask("records", wanted.split_id, extent[0] + 1 if extent[0] > position else position, end, _BATCH',),
    ("READ-27", "loss is looked for in the first range", "and no error", BEGIN, f"{BEGIN} and wanted in self.first")
    + ("self._horizon = task.horizon", "self._horizon, self.first = task.horizon, task.ranges[:1]"),
    ("READ-27", "every deletion is a loss", "no row of", BEGIN, "extent[0] > 0"),
    ("READ-28", "loss is looked for before the first page", "deleted after the first batch", BEGIN)
    + (f"{BEGIN} == wanted.start",),
    ("READ-11", "readers need the process of the enumerator", "here and in another process", RETURN_FOUND)
    + (f"found = {FOUND}; globals().setdefault('KNOWN', set()).update(found); return found", ASKED)
    + ("for wanted in [r for r in task.ranges if r.split_id in globals().get('KNOWN', ())]",),
    (
        "READ-11",
        "a source keeps a value that cannot be pickled",
        "cannot be pickled",
        "return MemoryEnumerator(self, state)",
    )
    + ("self.__dict__['lock'] = __import__('threading').Lock(); return MemoryEnumerator(self, state)",),
    ("READ-21", "the last batch has another schema", "value: large_string", "        schema=_SCHEMA,")
    + ("        schema=_SCHEMA if len(rows) > 1 else _SCHEMA.set(1, pa.field('value', pa.large_string())),",),
    ("READ-21", "a text is no UTF-8", "not valid Arrow", VALUES)
    + ("pa.array([row.value and row.value.encode() + b'\\xff' for row in rows], pa.binary()).view(pa.string())",),
    ("TIME-26", "latest is none where the greatest time does not count", "says none")
    + method(
        "latest(self, ends, horizon) -> {s: self._source.usable_ms(s, max(self._client.ask('records', s, 0, end), "
        "key=lambda record: record.row.event_time_ms), horizon) for s, end in ends.items()}"
    ),
    ("STATE-2", "a start is resolved twice", "are gone", EXTENT)
    + (
        EXTENT.replace(
            "begin,",
            "max(begin, self.ends.setdefault(split, end) if self._source.starting == 'latest' else 0),",
        ),
        *(STATE, f"{STATE}; self.ends = {{}}"),
    ),
    ("STATE-7", "planned rows count as done", "gone", STATE)
    + (f"{STATE}; self.done = dict(globals().setdefault('PLANNED', {{}}))", EXTENT)
    + (
        EXTENT.replace("begin,", "max(begin, self.done.get(split, 0)),").replace(
            "end,", "PLANNED.update({split: end}) or end,"
        ),
    ),
    (
        "STATE-10",
        "a tuple in the snapshot",
        "and after JSON",
        RETURN_STATE,
        "return {**self._state, 'splits': ('a', 'b')}",
    ),
    ("STATE-10", "NaN in the snapshot", "is not JSON", RETURN_STATE, "return {**self._state, 'mean': float('nan')}"),
    ("SPLIT-10", "a clock in the JSON", "nothing was added, but snapshot() changed", RETURN_STATE)
    + ("return {**self._state, 'at': int(__import__('time').time())}",),
    ("STATE-12", "non-canonical JSON", "in another process it becomes", RETURN_STATE)
    + ("return {**self._state, 'splits': list({f'{split}{n}' for split in self.discover() for n in range(20)})}",),
    ("STATE-14", "a field that is missing is a KeyError", "KeyError", RETURN_FOUND)
    + (f"return {FOUND}[self._state['skipped'] :]", OTHER_STORE, "if False and (")
    + (STATE, f"{STATE[:-1]}, 'skipped': 0}}; self._state = state or self._state"),
    ("STATE-14", "a field that is missing means something else", "raises no error, but reads 2 rows", RETURN_FOUND)
    + (f"return {FOUND}[self._state['skipped'] :]", STATE)
    + (f"{STATE[:-1]}, 'skipped': 0 if state is None else state.get('skipped', 1)}}",),
    ("WHOLE-1", "a row behind the third is read twice", "more than once", READ)
    + (READ.replace("in records]", "in [*records[: wanted.start >= 3], *records]]"),),
    ("LIFE-1", "a constructor opens a file", "an enumerator leaves 1 more of the kind 'file'", STATE)
    + (f"{STATE}; import os, weakref; weakref.finalize(self, os.close, os.open(os.sys.executable, 0))",),
    ("LIFE-2", "a thread leaked", "more of the kind 'thread'", STATE)
    + (f"{STATE}; __import__('threading').Thread(target=__import__('time').sleep, args=[99], daemon=True).start()",),
    ("LIFE-11", "errors of others come through", "KeyError", READS_ON)
    + (f"client.ask('records', wanted.split_id, 0, 0); {READS_ON}",),
    ("LIFE-12", "a secret in the log", "a secret is in a log", RETURN_FOUND)
    + (f"__import__('logging').getLogger('mutant').debug('at %s', self._source.address); {RETURN_FOUND}",),
    ("LIFE-12", "a secret in the error", "a secret is in the error of reading", LOSS)
    + (f"{LOSS} from RuntimeError(self._source.address)",),
    ("WHOLE-1", "commit frees too much", "it should have been paused")
    + method("commit(self, positions) -> [self._client.ask('trim', split, 1) for split in positions]"),
    ("SPARK-1", "a batch query begins at the end", "missing")
    + method("as_batch(self) -> self.model_copy(update={'starting': 'latest'})", "    def client(self):"),
    ("SPARK-2", "a reader takes away what it reads", "before and after a restart", READ_RANGE)
    + (f"{READ_RANGE}; client.ask('trim', wanted.split_id, wanted.end)", "self._source.fail_on_data_loss", "False"),
    ("FAULT-1", "there is no deadline", "planning did not end within 4.5 s", DEADLINE, "3_600"),
    ("FAULT-2", "a request that is repeated because it is slow is answered twice", "they differ", READ_RANGE)
    + (
        (
            "begun = __import__('time').monotonic()\n                batches = list(self._read(client, wanted))\n"
            "                yield from batches * (2 if __import__('time').monotonic() - begun > 1 else 1)"
        ),
    ),
    ("FAULT-4", "an error is taken for the end", "read during the fault and after it", READ_RANGE)
    + (f"try:\n                    {READ_RANGE}\n                except ConnectorError:\n                    return",)
    + WITH_CONNECTOR_ERROR,
    ("FAULT-5", "a reader begins anew after an error", "more than once", READ_RANGE)
    + (
        (
            f"while True:\n                    try:\n                        {READ_RANGE}\n"
            "                    except ConnectorError:\n                        continue\n                    break"
        ),
        *(DEADLINE, "0.01"),
        *WITH_CONNECTOR_ERROR,
    ),
]

PATIENCE_S = {
    "SPLIT-10": 2.0,  # until the clock shows another second
    "FAULT-2": 3.0,
}

MUTANTS = [
    Mutant(sin, killer, words, patched(*changes), patience_s=PATIENCE_S.get(killer, Mutant.patience_s))
    for killer, sin, words, *changes in PATCHES
]
