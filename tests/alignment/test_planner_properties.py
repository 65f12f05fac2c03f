"""Whole runs over generated worlds, each plan judged by the brute-force oracle in ``model``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import accumulate

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.alignment.logs import Entry, KafkaLike, Log, PeekOnly
from tests.alignment.model import World
from tidegate.alignment.budget import Budget
from tidegate.alignment.horizon import NEVER_MS, Horizon
from tidegate.alignment.plan import Limits

WALL_CLOCK_MS = 10**7

GAPS = st.sampled_from([0, 0, 0, 1, 1, 2, 3, 7, 40, 900])
HOLES = st.sampled_from([1, 1, 1, 1, 2, 9])
KINDS = st.sampled_from(["record", "record", "record", "marker", "ignored", "aborted"])


@st.composite
def logs(draw: st.DrawFn, *, disorder_ms: int, clean: bool) -> Log:
    """Draw a log, part of which is readable."""
    now_ms = draw(st.sampled_from([0, 0, 5, 1000, 100_000]))
    position = begin = draw(st.sampled_from([0, 0, 50]))
    entries = []
    for gap, hole in draw(st.lists(st.tuples(GAPS, HOLES), max_size=12)):
        now_ms += gap
        position += hole - 1
        kind = "record" if clean else draw(KINDS)
        time_ms = now_ms - draw(st.one_of(st.integers(0, disorder_ms), st.sampled_from([0, disorder_ms])))
        if kind in {"marker", "ignored"}:
            time_ms = draw(st.sampled_from([-1, WALL_CLOCK_MS]))
        entries.append(Entry(position, time_ms, kind == "record"))
        position += 1
    made = Log(entries, begin=begin, end=begin)
    made.append(draw(st.integers(0, 12)))
    made.complete = made.end == made.last and draw(st.booleans())
    return made


BUDGETS = st.sampled_from(
    [Budget(), Budget(), Budget(rows=1), Budget(rows=2), Budget(rows=5), Budget(rows=20), Budget(files=1)]
)


@st.composite
def limits(draw: st.DrawFn, *, disorder_ms: int | None) -> Limits:
    aligned = draw(st.sampled_from([True, True, True, False]))
    return Limits(
        aligned=aligned,
        max_drift_ms=draw(st.sampled_from([None, 1, 2, 10, 1000])),
        out_of_orderness_ms=disorder_ms,
        budget=draw(BUDGETS),
        fail_on_data_loss=False,
        late_splits=draw(st.sampled_from(["admit", "admit", "catch-up"])),
        horizon_ms=draw(st.sampled_from([NEVER_MS, NEVER_MS, NEVER_MS, 3, 900, 50_000])) if aligned else NEVER_MS,
    )


WHATS = (
    *("nothing", "nothing", "append", "append", "append", "quiet", "wake", "settle"),
    *("discover", "remove", "return", "away", "back", "trim", "restart", "group", "change limits"),
)
EVENTS = st.lists(st.tuples(st.sampled_from(WHATS), st.integers(0, 5), st.integers(0, 12)), max_size=14)


@st.composite
def worlds(draw: st.DrawFn, *, clean: bool, source: type[PeekOnly]) -> tuple[World, list[Log], list[Limits]]:
    """Draw a world, the splits that are still to be discovered, and the options that the user may change."""
    # Only probed splits can pass the bound, and only if their disorder is longer than the drift.
    disorder_ms = draw(st.sampled_from([0, 60, 60, 900] if source is PeekOnly else [0, 0, 1, 5, 60]))
    wanted_ms = draw(st.sampled_from([disorder_ms, disorder_ms, disorder_ms, 2, None]))
    drawn = draw(st.lists(logs(disorder_ms=disorder_ms, clean=clean), min_size=1, max_size=4))
    hidden = draw(st.lists(logs(disorder_ms=disorder_ms, clean=clean), max_size=2))
    named = {f"s{i}": log for i, log in enumerate(drawn)}
    begun = draw(limits(disorder_ms=wanted_ms))
    if draw(st.booleans()):
        stops = {s: draw(st.sampled_from([None, log.begin, log.begin + 3, log.last])) for s, log in named.items()}
        begun = replace(begun, stops=stops)
    world = World(named, begun, source=source, sighted=clean, lazy_latest=draw(st.booleans()))
    others = draw(st.lists(limits(disorder_ms=draw(st.sampled_from([wanted_ms, 7]))), max_size=2))
    return world, hidden, [replace(other, stops=begun.stops) for other in others]


def happen(  # noqa: C901 - a table of small effects
    world: World, event: tuple[str, int, int], hidden: list[Log], changes: list[Limits]
) -> None:
    """Let one thing happen between two plans."""
    what, which, amount = event
    names = sorted(world.logs)
    split = names[which % len(names)]
    log = world.logs[split]

    def append() -> None:
        world.quiet.discard(split)
        log.append(amount)

    def settle() -> None:
        log.settled = log.complete or amount % 2 == 0

    def discover() -> None:
        if hidden:
            world.discover(f"late{len(hidden)}", hidden.pop())

    def remove() -> None:
        if len(names) > 1:
            world.remove(split)

    def come_back() -> None:
        if world.gone:
            world.bring_back(min(world.gone))

    def group() -> None:
        world.group_low_ms = (-5, 0, 3, 500, 2000, 200_000, None, None, None, None, None, None, None)[amount]

    def change_limits() -> None:
        world.restart()
        if changes:
            world.states = {}  # another run: splits that were finished before need not be finished now
            world.limits = changes.pop()

    effects: dict[str, Callable[[], object]] = {
        "nothing": lambda: None,
        "append": append,
        "quiet": lambda: world.quiet.add(split),
        "wake": lambda: world.quiet.discard(split),
        "settle": settle,
        "discover": discover,
        "remove": remove,
        "return": come_back,
        "away": lambda: world.away.add(split),
        "back": lambda: world.away.discard(split),
        "trim": lambda: world.trim(split, log.begin + amount),
        "restart": world.restart,
        "group": group,
        "change limits": change_limits,
    }
    effects[what]()


def live_through(scene: tuple[World, list[Log], list[Limits]], events: list[tuple[str, int, int]]) -> None:
    world, hidden, changes = scene
    world.plan()
    for event in events:
        happen(world, event, hidden, changes)
        world.plan()
    # All obstacles go away, and then everything must be read.
    world.away.clear()
    world.group_low_ms = None
    world.limits = replace(world.limits, horizon_ms=NEVER_MS)
    for split in list(world.gone):
        world.bring_back(split)
    for split, log in world.logs.items():
        log.append(len(log.entries))
        log.settled = True
        world.quiet.add(split)
    world.drain()
    for split, log in world.logs.items():
        lost = world.lost[split]
        stop = world.limits.stops.get(split)
        due = [
            e
            for e in log.entries
            if e.seen and world.starts[split] <= e.position and (stop is None or e.position < stop)
        ]
        assert [e for e in due if e.position not in lost] == world.delivered[split], "not exactly once"
    _judge_last_watermark(world)


def _judge_last_watermark(world: World) -> None:
    """If all splits are idle or finished, the watermark is at the last record minus the disorder."""
    ends = {s: world.end_of(s) for s in world.logs}
    last_ms = [t for t in world.source.latest(ends, Horizon()).values() if t is not None]
    disorder_ms = world.limits.out_of_orderness_ms
    if disorder_ms is not None and last_ms:
        assert world.progress.watermark_ms is not None
        assert world.progress.watermark_ms >= max(last_ms) - disorder_ms - 1


PROFILE = settings(max_examples=400, suppress_health_check=list(HealthCheck))


@PROFILE
@given(worlds(clean=True, source=KafkaLike), EVENTS)
def test_an_index_that_sees_is_obeyed_to_the_record(
    scene: tuple[World, list[Log], list[Limits]], events: list[tuple[str, int, int]]
) -> None:
    live_through(scene, events)


@PROFILE
@given(worlds(clean=False, source=KafkaLike), EVENTS)
def test_an_index_that_is_blinded_by_markers_loses_nothing(
    scene: tuple[World, list[Log], list[Limits]], events: list[tuple[str, int, int]]
) -> None:
    live_through(scene, events)


@PROFILE
@given(worlds(clean=False, source=PeekOnly), EVENTS)
def test_a_source_without_an_index_loses_nothing(
    scene: tuple[World, list[Log], list[Limits]], events: list[tuple[str, int, int]]
) -> None:
    live_through(scene, events)


SCATTERED = st.lists(st.tuples(st.integers(0, 4), st.sampled_from([0, 0, 15, 60])), min_size=5, max_size=40)


@settings(max_examples=200, suppress_health_check=list(HealthCheck))
@given(
    steps=st.lists(SCATTERED, min_size=1, max_size=3),
    source=st.sampled_from([PeekOnly, KafkaLike]),
    drift_ms=st.integers(1, 30),
    budget=BUDGETS,
)
def test_in_disorder_longer_than_the_drift_a_batch_passes_its_bound_by_no_more_than_the_disorder(
    steps: list[list[tuple[int, int]]], source: type[PeekOnly], drift_ms: int, budget: Budget
) -> None:
    times = [[now - late for now, (_, late) in zip(accumulate(gap for gap, _ in s), s, strict=True)] for s in steps]
    world = World(
        {
            f"s{i}": Log([Entry(*at) for at in enumerate(split_times)], end=len(split_times))
            for i, split_times in enumerate(times)
        },
        Limits(max_drift_ms=drift_ms, out_of_orderness_ms=60, budget=budget),
        source=source,
        sighted=False,
    )
    world.quiet.update(world.logs)
    world.drain()
    assert [world.read(s) for s in world.logs] == times
