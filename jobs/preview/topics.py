"""Looks at a topic with as little as the planner needs: lookups by time, and a few records of each partition.

The index answers with the first record at or after a time, so it knows the greatest event time up to each position,
and nothing of the rows that are older than one before them.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from heapq import heappop, heappush
from itertools import zip_longest
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidegate.alignment.budget import Budget
from tidegate.alignment.generators import NO_EVENT_TIME
from tidegate.alignment.index import TimeIndex
from tidegate.alignment.splits import Extent, Head, SplitId, SplitRange
from tidegate.enumerators.kafka.enumerator import KafkaTimestampEnumerator
from tidegate.errors import OptionError, counted
from tidegate.jobs.figures import clock_time, count
from tidegate.jobs.preview.findings import aligned_histories, by_backlog
from tidegate.jobs.preview.seen import MOST_TIMES, MUCH, TIMELESS, History, Seen
from tidegate.readers.contract import ReadTask
from tidegate.readers.event_time.records import PunctuatedWatermarks
from tidegate.readers.kafka.config import TopicPartition
from tidegate.sources.kafka.source import KafkaSource

_LEAST_SHARE = 1000  # of the rows: a smaller gap is not worth a look
_FLAT_MS = 1000


class Gap(NamedTuple):
    """Rows between two known records.

    start, start_ms: the record at its begin, which is older than all the next ones that are known.
    end: the position after its last row.
    before_ms: all its rows are older; exclusive.
    blind: the index cannot tell more: it answers with a marker, or with an entry of before.
    """

    start: int
    start_ms: int
    end: int
    before_ms: int
    blind: bool = False

    @property
    def is_unsure(self) -> bool:
        """Whether the rows may be of any time before: no look can tell."""
        return self.blind or self.before_ms - self.start_ms <= _FLAT_MS

    @property
    def rows(self) -> int:
        """The number of positions."""
        return self.end - self.start


class Curve:
    """The greatest event time up to each position of a split.

    start, end: its positions, the end exclusive.
    first_ms, latest_ms: the event time of its first record, and the greatest one.
    looks: the most questions.
    """

    def __init__(self, start: int, end: int, first_ms: int, latest_ms: int, looks: int = 200) -> None:
        self.start, self.end = start, end
        self.first_ms, self.latest_ms = first_ms, latest_ms
        self._looks_left = looks
        self._least_rows = max(2, (end - start) // _LEAST_SHARE)
        self._known: list[Gap] = []
        self._waiting: list[tuple[int, Gap]] = []  # the least known one first
        self._add(Gap(start, first_ms, end, max(latest_ms, first_ms) + 1))

    @property
    def gaps(self) -> list[Gap]:
        """All gaps, in the order of positions."""
        return sorted([*self._known, *(gap for _, gap in self._waiting)])

    @property
    def question(self) -> int | None:
        """The time to look for next; None: no look is worth it."""
        if not self._waiting or not self._looks_left:
            return None
        _, gap = self._waiting[0]
        return (gap.start_ms + gap.before_ms) // 2

    def learn(self, head: Head | None) -> None:
        """Take the index's answer to the question."""
        _, gap = heappop(self._waiting)
        time_ms = (gap.start_ms + gap.before_ms) // 2
        self._looks_left -= 1
        if head is None or head.position >= gap.end:
            self._add(gap._replace(before_ms=time_ms))
        elif head.position <= gap.start or head.event_time_ms > self.latest_ms:
            self._add(gap._replace(blind=True))
        else:
            later_ms = max(gap.before_ms, head.event_time_ms + 1)
            self._add(gap._replace(end=head.position, before_ms=time_ms))
            self._add(Gap(head.position, head.event_time_ms, gap.end, later_ms))

    def _add(self, gap: Gap) -> None:
        span_ms = gap.before_ms - gap.start_ms
        is_worth = gap.rows >= self._least_rows or (gap.rows > 1 and span_ms * MUCH >= self.latest_ms - self.first_ms)
        if is_worth and not gap.is_unsure:
            heappush(self._waiting, (-gap.rows * span_ms, gap))
        else:
            self._known.append(gap)


_LOOKS = (50, 200, 10_000)  # at each partition, at least and at most; at all together
_SAMPLES = (2, 8, 400)  # the same, where the index sees; each may be a request
_UNSURE_SAMPLES = 64
_THIN_SAMPLES = (2, 64, 3_200)  # at each partition whose offsets do not all hold a record
_THIN = 0.95
_ROWS = 200  # offsets of a sample
_NEW = 0.9  # the quantile of the times in a sample that few late or future records change


class _Sample(NamedTuple):
    """The records at some offsets of a split that follow each other; there may be none.

    start, end: the offsets that were asked for.
    marks_ms: the watermarks that they contain; NO_EVENT_TIME: none.
    """

    start: int
    end: int
    offsets: NDArray[np.int64]
    times_ms: NDArray[np.int64]
    marks_ms: NDArray[np.int64]


def look_at_topics(source: KafkaSource) -> Seen:
    """Return what the time index and samples tell of a source from its start to its present end.

    Raises OptionError for event times that Kafka does not index, and the errors of a planner's first calls.
    """
    if not source.event_times.by_record_timestamp:
        raise OptionError(
            f"eventTime is {source.event_time!r}, but a preview of a topic covers the records' own timestamps only, "
            "which Kafka indexes; leave out eventTime to judge by them"
        )
    quiet = {"bad_event_time": "ignore", "bad_records_path": None, "commit_group_id": None}
    source = source.untyped().model_copy(update=quiet).as_batch()
    with closing(source.enumerator(None)) as enumerator:
        assert isinstance(enumerator, KafkaTimestampEnumerator)  # noqa: S101 - event times are timestamps
        splits = sorted(enumerator.discover())
        starts, stops = enumerator.starts(splits, first=True), enumerator.stops(splits)
        extents = enumerator.extents(splits)
        splits = [split for split in splits if split in extents]
        ends = {s: e.end if (stop := stops[s]) is None else min(stop, e.end) for s, e in extents.items()}
        index = TimeIndex(enumerator)
        heads = index.heads({s: starts[s] for s in splits if starts[s] < ends[s]})
        known = {s: Extent(starts[s], ends[s]) for s, head in heads.items() if head and head.position < ends[s]}
        latest = index.latest(known)
        curves, looks, number = {}, _each(_LOOKS, len(known)), _each(_SAMPLES, len(known))
        for split, extent in known.items():
            first_ms = head.event_time_ms if (head := heads[split]) else 0
            curves[split] = Curve(extent.begin, extent.end, first_ms, max(first_ms, latest[split] or first_ms), looks)
        while questions := {s: time_ms for s, curve in curves.items() if (time_ms := curve.question) is not None}:
            for split, head in enumerator.lookup_each(questions, starts).items():
                curves[split].learn(head)
        wanted = {split: _wanted(curve, number) for split, curve in curves.items()}
        samples = _sampled(source, enumerator, wanted, ends)
        thin = [split for split in curves if _density(samples[split]) < _THIN]
        more = _each(_THIN_SAMPLES, len(thin))
        between = {s: [*np.linspace(known[s].begin, known[s].end, more + 2)[1:-1].astype(int)] for s in thin}
        for split, found in _sampled(source, enumerator, between, ends).items():
            samples[split] += found
        cost = enumerator.cost({s: SplitRange(s, e.begin, e.end) for s, e in known.items()})
    histories = {s: _history(curve, samples[s]) for s, curve in curves.items()}
    timeless = [s for s in splits if s not in known and starts[s] < ends[s]]
    marked = {s: _Marked.among(samples[s]) for s in curves} if source.watermark_from else {}
    return Seen(
        histories=histories,
        by_spark=lambda budget: by_backlog(histories, budget.rows),
        planned=histories,
        by_tidegate=lambda max_drift_ms, budget: aligned_histories(histories, max_drift_ms, budget),
        budget=Budget(rows=source.budget.rows),
        units=sum(extent.end - extent.begin for extent in known.values()),
        bytes_per_row=cost.bytes / max(1, cost.rows),
        now_ms=time.time_ns() // 1_000_000,
        empty=[split for split in splits if split not in known],
        blind=[split for split, curve in curves.items() if any(_is_large(curve, gap) for gap in curve.gaps)],
        watermark_from=source.watermark_from,
        marks={s: found.greatest_ms for s, found in marked.items() if found.greatest_ms is not None},
        notes={s: [found.remark] for s, found in marked.items()} | {s: [TIMELESS] for s in timeless},
    )


def _each(limits: tuple[int, int, int], partitions: int) -> int:
    """Return how often each of so many partitions is asked."""
    least, most, of_all = limits
    return max(least, min(most, of_all // max(1, partitions)))


def _sampled(
    source: KafkaSource,
    enumerator: KafkaTimestampEnumerator,
    wanted: Mapping[SplitId, Sequence[int]],
    ends: Mapping[SplitId, int],
) -> dict[SplitId, list[_Sample]]:
    """Return the records at and after some positions."""
    samples: dict[SplitId, list[_Sample]] = {split: [] for split in wanted}
    reader, marks = source.reader(enumerator.snapshot()), _marks(source)
    for ranges in _tasks(wanted, ends):
        found: dict[SplitId, list[pa.RecordBatch]] = defaultdict(list)
        for rows in reader.read(ReadTask(ranges, tuple(map(enumerator.details, ranges)))):
            at = TopicPartition(rows.column("topic")[0].as_py(), rows.column("partition")[0].as_py())
            found[at.split_id].append(rows)
        for asked in ranges:
            parts = [
                (rows.column("offset").to_numpy(), rows.column("timestamp").cast("int64").to_numpy(), marks(rows))
                for rows in found[asked.split_id]
            ] or [(np.zeros(0, np.int64),) * 3]
            offsets, times_us, marks_ms = map(np.concatenate, zip(*parts, strict=True))
            samples[asked.split_id].append(_Sample(asked.start, asked.end, offsets, times_us // 1000, marks_ms))
    return samples


def _density(samples: Sequence[_Sample]) -> float:
    return sum(len(sample.offsets) for sample in samples) / max(1, sum(sample.end - sample.start for sample in samples))


def _marks(source: KafkaSource) -> Callable[[pa.RecordBatch], NDArray[np.int64]]:
    """Return what reads the watermarks in records."""
    generator = source.as_stream().watermarks.generator if source.watermark_from is not None else None
    punctuated = None if generator is None else generator()

    def read(rows: pa.RecordBatch) -> NDArray[np.int64]:
        if not isinstance(punctuated, PunctuatedWatermarks):
            return np.full(rows.num_rows, NO_EVENT_TIME)
        marks: NDArray[np.int64] = pa.array(punctuated.marks(rows)).fill_null(NO_EVENT_TIME).to_numpy()
        return marks

    return read


class _Marked(NamedTuple):
    """What the samples of a split tell of its marks."""

    greatest_ms: int | None
    remark: str

    @classmethod
    def among(cls, samples: Sequence[_Sample]) -> _Marked:
        ordered = sorted(samples, key=lambda sample: sample.start)
        of_each = [(sample.offsets, sample.times_ms, sample.marks_ms) for sample in ordered if len(sample.offsets)]
        if not of_each:  # transactions that were aborted, or compaction
            return cls(None, "no record in the samples")
        offsets, times_ms, marks_ms = map(np.concatenate, zip(*of_each, strict=True))
        _, once = np.unique(offsets, return_index=True)  # samples of a short split overlap
        times_ms, marks_ms = times_ms[once], marks_ms[once]
        number, before_ms = int(np.count_nonzero(marks_ms != NO_EVENT_TIME)), np.maximum.accumulate(marks_ms)
        if not number:
            return cls(None, f"no mark in {counted(len(once), 'sampled record')}")
        late = int(np.count_nonzero(times_ms[1:] <= before_ms[:-1]))
        greatest_ms = int(before_ms[-1])
        remark = f"{count(number)} of {counted(len(once), 'sampled record')} are marks, up to {clock_time(greatest_ms)}"
        return cls(greatest_ms, f"{remark}; {count(late)} come behind a mark" if late else remark)


def _is_large(curve: Curve, gap: Gap) -> bool:
    """Return whether the index is blind behind much of a split, and behind more than a sample."""
    return gap.is_unsure and gap.rows * 100 >= curve.end - curve.start and gap.rows > _ROWS


def _wanted(curve: Curve, least: int) -> list[int]:
    """Return the positions of samples: a few everywhere, and many where the index is blind."""
    start, end = curve.start, curve.end
    wanted = list(np.linspace(start, max(start, end - _ROWS), least).astype(int))
    for gap in curve.gaps:
        if _is_large(curve, gap):
            more = 4 + _UNSURE_SAMPLES * gap.rows // (end - start)
            wanted += list(np.linspace(gap.start + 1, gap.end - _ROWS // 2, more).astype(int))
        elif gap.rows > 1 and (gap.blind or (gap.is_unsure and gap.rows * 100 >= end - start)):
            wanted.append(gap.start + 1)
    return wanted


def _tasks(wanted: Mapping[SplitId, Sequence[int]], ends: Mapping[SplitId, int]) -> Iterator[tuple[SplitRange, ...]]:
    """Yield ranges that are fetched together, one of each split."""
    for positions in zip_longest(*wanted.values()):
        yield tuple(
            SplitRange(split, at, min(at + _ROWS, ends[split]))
            for split, position in zip(wanted, positions, strict=True)
            if position is not None and (at := int(position)) < ends[split]
        )


class _Part(NamedTuple):
    """The records of a sample in a gap; if it is unsure, without the known one at its start, which hides the others."""

    gap: Gap
    offsets: NDArray[np.int64]
    times_ms: NDArray[np.int64]

    @property
    def newest_ms(self) -> NDArray[np.int64]:
        """The newest time up to each record."""
        newest = np.maximum.accumulate(self.times_ms)
        return newest if self.gap.is_unsure else np.maximum(newest, self.gap.start_ms)


def _parts(gaps: Sequence[Gap], samples: Sequence[_Sample]) -> Iterator[_Part]:
    starts = np.array([gap.start for gap in gaps])
    for sample in samples:
        gap_of = np.searchsorted(starts, sample.offsets, side="right") - 1
        for of_gap in np.unique(gap_of):
            gap = gaps[of_gap]
            inside = (gap_of == of_gap) & ~((sample.offsets == gap.start) & gap.is_unsure)
            if inside.any():
                yield _Part(gap, sample.offsets[inside], sample.times_ms[inside])


def _history(curve: Curve, samples: Sequence[_Sample]) -> History:
    """Return the rows: those of the samples, and between these others like them.

    Such rows are behind the curve, which is the newest time so far, or where it is blind, what samples have for newest.
    """
    start, end, gaps = curve.start, curve.end, curve.gaps
    asked = sorted(samples, key=lambda sample: sample.start)
    held = [sample for sample in asked if len(sample.offsets)]
    parts = [*_parts(gaps, held)]
    blind = [part for part in parts if part.gap.is_unsure]
    sampled = {part.gap.start for part in blind}
    known = [(float(part.offsets.mean()), float(np.quantile(part.times_ms, _NEW))) for part in blind]
    for gap in gaps:
        if gap.start not in sampled:
            known += [(gap.start, gap.start_ms), (max(gap.start + 0.5, gap.end - 1), gap.before_ms - 1)]
    positions, times = zip(*sorted(known), strict=True)

    nothing = np.zeros(1, np.int64)
    lags = np.concatenate([nothing, *(part.newest_ms - part.times_ms for part in parts if not part.gap.is_unsure)])
    spread = np.concatenate(
        [nothing, *(part.times_ms - np.interp(part.offsets, positions, times).astype(np.int64) for part in blind)]
    )
    number = min(end - start, MOST_TIMES)
    edges = start + np.arange(number + 1) * (end - start) // number
    places = edges[:-1]
    gap_of = np.searchsorted([gap.start for gap in gaps], places, side="right") - 1
    is_blind = np.isin([gap.start for gap in gaps], [*sampled])[gap_of]
    between, random = np.interp(places, positions, times).astype(np.int64), np.random.default_rng(0)
    times_ms = between + np.where(is_blind, random.choice(spread, number), -random.choice(lags, number))
    least_ms = between + np.where(is_blind, spread.min(), -lags.max())
    middles = [(sample.start + sample.end) / 2 for sample in asked]
    of_each = [len(sample.offsets) / (sample.end - sample.start) for sample in asked]
    densities = np.maximum(np.interp(places, middles, of_each), 1 / (end - start))  # there is a record
    for sample in asked:
        first, last = np.searchsorted(places, (sample.start, sample.end))
        before = np.searchsorted(sample.offsets, edges[first : last + 1])
        densities[first:last] = np.diff(before) / np.diff(edges[first : last + 1])
        if len(sample.offsets):
            times_ms[first:last] = sample.times_ms[before[:-1].clip(max=len(sample.offsets) - 1)]
            least_ms[first:last] = times_ms[first:last]
    first_ms = min([curve.first_ms, *(int(sample.times_ms.min()) for sample in held)])
    times_ms = times_ms.clip(first_ms, curve.latest_ms)
    disorder_ms = max((int((part.newest_ms - part.times_ms).max()) for part in parts), default=0)
    history = History(start, end, times_ms, disorder_ms, densities, least_ms)
    for gap in gaps:  # these are known exactly, and some are far from their neighbours
        times_ms[history.place(gap.start)] = gap.start_ms
    if times_ms.max() < curve.latest_ms:
        times_ms[-1] = curve.latest_ms
    return history
