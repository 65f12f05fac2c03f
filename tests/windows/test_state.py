import threading
from collections import Counter, defaultdict
from datetime import timedelta

import pytest

from tidegate.errors import FunctionError, OptionError
from tidegate.windows import (
    Aggregate,
    AggregateFunction,
    CountEvictor,
    CountTrigger,
    DynamicEventTimeSessionWindows,
    EventTimeSessionWindows,
    EventTimeTrigger,
    ListStateDescriptor,
    MapStateDescriptor,
    Process,
    ProcessWindowFunction,
    PurgingTrigger,
    Reduce,
    ReducingStateDescriptor,
    SqlAggregates,
    TumblingEventTimeWindows,
    ValueStateDescriptor,
    WindowOperator,
)
from tidegate.windows.key_run import KeyRun
from tidegate.windows.state.store import MemoryKeyStore
from tidegate.windows.window import MAX_TIME

TUMBLING = TumblingEventTimeWindows.of(timedelta(milliseconds=10))
COUNT = Aggregate(SqlAggregates(rows="sum(n)"))


class CountingStore(MemoryKeyStore):
    def __init__(self):
        super().__init__()
        self.reads, self.writes = Counter(), Counter()

    def read(self):
        self.reads["state"] += 1
        return super().read()

    def write(self, value):
        self.writes["state"] += 1
        super().write(value)

    def read_rows(self, chunk):
        self.reads[chunk] += 1
        return super().read_rows(chunk)

    def write_rows(self, chunk, value):
        self.writes[chunk] += 1
        super().write_rows(chunk, value)


def is_empty(store):
    return store.value is None and not store.rows


class AllRows(ProcessWindowFunction):
    def process(self, key, context, elements):
        return [[row["n"] for row in elements]]


def batch(operator, store, watermark, rows):
    """Handle one batch of a key: rows are pairs of a number and a time.  Return its results."""
    run = KeyRun(operator, "a", store)
    run.advance_watermark(watermark)
    run.process_elements([{"n": n} for n, _ in rows], [time for _, time in rows])
    run.close()
    return [(result.window.start, result.value) for result in run.results]


@pytest.mark.parametrize("function", [COUNT, Process(AllRows())])
def test_each_value_is_read_and_written_once_in_a_batch_however_many_rows_it_has(function):
    store = CountingStore()
    operator = WindowOperator(TUMBLING, function, allowed_lateness=timedelta(milliseconds=5))
    for start in range(0, 500, 50):
        store.reads.clear()
        store.writes.clear()
        batch(operator, store, start - 5, [(n, start + n % 40) for n in range(200)])
        assert max(store.reads.values()) == 1
        assert max(store.writes.values()) == 1


@pytest.mark.parametrize("function", [COUNT, Process(AllRows())])
@pytest.mark.parametrize("evictor", [None, CountEvictor.of(3)])
@pytest.mark.parametrize("assigner", [TUMBLING, EventTimeSessionWindows.with_gap(timedelta(milliseconds=3))])
def test_state_stays_flat_over_a_hundred_windows_and_is_gone_behind_the_last(function, evictor, assigner):
    store = MemoryKeyStore()
    operator = WindowOperator(assigner, function, evictor=evictor)
    sizes = []
    for start in range(0, 1000, 10):
        batch(operator, store, start - 1, [(n, start + n % 5) for n in range(20)])
        sizes.append((len(store.rows), len(store.value)))
    assert max(rows for rows, _ in sizes) == sizes[0][0]
    assert max(size for _, size in sizes) <= sizes[0][1] + 40  # numbers that are longer
    batch(operator, store, MAX_TIME, [])
    assert is_empty(store)


def test_rows_that_a_process_function_waits_for_are_written_once_not_with_every_batch():
    store = CountingStore()
    operator = WindowOperator(TUMBLING, Process(AllRows()))
    for n in range(5):
        assert batch(operator, store, -1, [(n, n)]) == []
    assert store.writes == {"state": 5} | dict.fromkeys(range(5), 1)
    assert batch(operator, store, 9, []) == [(0, [0, 1, 2, 3, 4])]


def test_a_batch_that_changes_nothing_writes_nothing():
    store = CountingStore()
    operator = WindowOperator(TUMBLING, COUNT)
    batch(operator, store, -1, [(0, 3)])
    store.writes.clear()
    batch(operator, store, -1, [])
    assert store.writes == {}


class Firings(ProcessWindowFunction):
    """Numbers the firings of a window, and counts how often a window goes."""

    def __init__(self):
        self.cleared = 0

    def process(self, key, context, elements):
        firings = context.window_state().get_state(ReducingStateDescriptor("firings", int.__add__))
        firings.add(1)
        return [firings.get()]

    def clear(self, context):
        self.cleared += 1


def test_state_of_a_window_outlives_a_purge_and_goes_with_the_window():
    store, function = MemoryKeyStore(), Firings()
    operator = WindowOperator(TUMBLING, Process(function), PurgingTrigger.of(CountTrigger.of(1)))
    assert batch(operator, store, -1, [(0, 0), (1, 1)]) == [(0, 1), (0, 2)]
    assert batch(operator, store, 0, [(2, 2)]) == [(0, 3)]
    assert function.cleared == 0
    assert batch(operator, store, 9, []) == []
    assert (function.cleared, is_empty(store)) == (1, True)


class Lingering(EventTimeTrigger):
    """Has a timer after the window's cleanup."""

    def on_element(self, element, timestamp, window, ctx):
        ctx.register_event_time_timer(window.max_timestamp() + 5)
        return super().on_element(element, timestamp, window, ctx)


def test_a_window_goes_once_though_its_trigger_has_a_timer_after_its_cleanup():
    store, function = MemoryKeyStore(), Firings()
    operator = WindowOperator(TUMBLING, Process(function), Lingering())
    batch(operator, store, -1, [(0, 0)])
    assert batch(operator, store, 100, []) == [(0, 1)]
    assert (function.cleared, is_empty(store)) == (1, True)


class Counting(ProcessWindowFunction):
    """Numbers the firings of a window, and those of its key."""

    def process(self, key, context, elements):
        here = context.window_state().get_state(ReducingStateDescriptor("firings", int.__add__))
        here.add(1)
        seen = context.global_state().get_state(MapStateDescriptor("windows"))
        seen[context.window().start] = seen.get(context.window().start, 0) + 1
        last = context.global_state().get_state(ValueStateDescriptor("last"))
        before, _ = last.value(), last.update(context.window().start)
        order = context.global_state().get_state(ListStateDescriptor("order"))
        order.add(context.window().start)
        return [(here.get(), dict(seen), before, order.get())]

    def clear(self, context):
        context.window_state().get_state(ReducingStateDescriptor("firings", int.__add__)).clear()


class Forgetful(EventTimeTrigger):
    """Keeps state that it never clears."""

    def on_element(self, element, timestamp, window, ctx):
        ctx.get_partitioned_state(ValueStateDescriptor("seen")).update(timestamp)
        return super().on_element(element, timestamp, window, ctx)


def test_state_that_a_trigger_forgets_to_clear_goes_with_its_window():
    operator, store = WindowOperator(TUMBLING, COUNT, Forgetful()), MemoryKeyStore()
    batch(operator, store, -1, [(1, 5)])
    assert batch(operator, store, 9, []) == [(0, {"rows": 1})]
    assert is_empty(store)


def test_state_of_a_window_that_a_function_forgets_to_clear_goes_with_the_window():
    class Keeping(ProcessWindowFunction):
        def process(self, key, context, elements):
            context.window_state().get_state(ValueStateDescriptor("seen")).update(len(elements))
            return ["kept"]

    operator, store = (
        WindowOperator(TUMBLING, Process(Keeping()), allowed_lateness=timedelta(milliseconds=5)),
        MemoryKeyStore(),
    )
    batch(operator, store, -1, [(0, 5)])
    assert batch(operator, store, 9, []) == [(0, "kept")]
    assert not is_empty(store)
    assert batch(operator, store, 14, []) == []
    assert is_empty(store)


def test_a_process_function_keeps_state_for_a_window_and_for_its_key_across_batches():
    store = MemoryKeyStore()
    operator = WindowOperator(TUMBLING, Process(Counting()), allowed_lateness=timedelta(milliseconds=10))
    assert batch(operator, store, 9, [(0, 10)]) == []
    assert batch(operator, store, 19, [(1, 11)]) == [
        (10, (1, {10: 1}, None, [10])),
        (10, (2, {10: 2}, 10, [10, 10])),
    ]
    assert batch(operator, store, 25, [(2, 12)]) == [(10, (3, {10: 3}, 10, [10, 10, 10]))]
    assert batch(operator, store, 39, [(3, 41)]) == []
    assert batch(operator, store, 49, []) == [(40, (1, {10: 3, 40: 1}, 10, [10, 10, 10, 40]))]


class Clearing(ProcessWindowFunction):
    """Uses each kind of state of its key under Flink's names, and removes the values again."""

    def process(self, key, context, elements):
        states = context.global_state()
        entries = states.get_map_state(MapStateDescriptor("map"))
        entries.put_all({1: "a", 2: "b"})
        entries.put(3, "c")
        entries.remove(1)
        entries.remove(1)
        numbers = states.get_list_state(ListStateDescriptor("list"))
        numbers.add_all([1, 2])
        total = states.get_reducing_state(ReducingStateDescriptor("reducing", int.__add__))
        total.add(4)
        value = states.get_state(ValueStateDescriptor("value"))
        value.update(5)
        found = (dict(entries), entries.contains(1), entries.is_empty(), numbers.get(), total.get(), value.value())
        del entries[2], entries[3]
        numbers.update([])
        total.clear()
        value.update(None)
        return [(*found, len(entries), numbers.get(), total.get(), value.value())]


def test_state_of_a_key_that_was_removed_leaves_nothing_behind():
    store = MemoryKeyStore()
    operator = WindowOperator(TUMBLING, Process(Clearing()))
    batch(operator, store, -1, [(0, 5)])
    assert not is_empty(store)
    ((_, seen),) = batch(operator, store, 9, [])
    assert seen == ({2: "b", 3: "c"}, False, False, [1, 2], 4, 5, 0, [], None, None)
    assert is_empty(store)


@pytest.mark.parametrize("kind", [ValueStateDescriptor, ListStateDescriptor, MapStateDescriptor])
def test_state_of_a_key_that_was_only_read_leaves_nothing_behind(kind):
    class Reading(ProcessWindowFunction):
        def process(self, key, context, elements):
            context.global_state().get_state(kind("state")).clear()
            return ["read"]

    store = MemoryKeyStore()
    operator = WindowOperator(TUMBLING, Process(Reading()))
    batch(operator, store, -1, [(0, 5)])
    assert batch(operator, store, 9, []) == [(0, "read")]
    assert is_empty(store)


def test_state_of_a_window_is_refused_where_windows_merge():
    operator = WindowOperator(EventTimeSessionWindows.with_gap(timedelta(milliseconds=5)), Process(Counting()))
    store = MemoryKeyStore()
    batch(operator, store, -1, [(0, 0)])
    with pytest.raises(OptionError, match=r"State of a window cannot be kept where windows merge"):
        batch(operator, store, 9, [])


def test_a_reduction_keeps_one_row_and_gives_none_when_an_evictor_takes_all():
    largest = Reduce(lambda one, other: max(one, other, key=lambda row: row["n"]))
    assert batch(WindowOperator(TUMBLING, largest), MemoryKeyStore(), -1, [(3, 1), (9, 2), (4, 3)]) == []
    operator, store = WindowOperator(TUMBLING, largest), MemoryKeyStore()
    batch(operator, store, -1, [(3, 1), (9, 2)])
    batch(operator, store, -1, [(4, 3)])
    assert batch(operator, store, 9, []) == [(0, {"n": 9})]
    operator, store = WindowOperator(TUMBLING, largest, evictor=CountEvictor.of(0)), MemoryKeyStore()
    batch(operator, store, -1, [(3, 1)])
    assert batch(operator, store, 9, []) == []


def test_a_function_that_raises_names_key_and_window():
    class Broken(AggregateFunction):
        def create_accumulator(self):
            return 0

        def add(self, value, accumulator):
            return accumulator + 1 // value["n"]

        def get_result(self, accumulator):
            return accumulator

    operator = WindowOperator(TUMBLING, Aggregate(Broken()))
    reported = r"A function of the windows raised ZeroDivisionError: .* \(for key 'a' and window \[20, 30\) ms\)"
    for rows in ([(1, 5), (0, 25)], [(0, 25)]):
        with pytest.raises(FunctionError, match=reported) as raised:
            batch(operator, MemoryKeyStore(), -1, rows)
        assert isinstance(raised.value.__cause__, ZeroDivisionError)
    with pytest.raises(FunctionError, match=r"ZeroDivisionError.*key 'a' and window \[20, 30\) ms"):
        KeyRun(operator, "a", MemoryKeyStore()).process_element({"n": 0}, 25)


def test_a_function_that_raises_when_a_timer_fires_names_key_and_window():
    class Broken(ProcessWindowFunction):
        def process(self, key, context, elements):
            raise KeyError("amount")

    store = MemoryKeyStore()
    operator = WindowOperator(TUMBLING, Process(Broken()))
    batch(operator, store, -1, [(0, 5)])
    with pytest.raises(FunctionError, match=r"raised KeyError: 'amount' \(for key 'a' and window \[0, 10\) ms\)"):
        batch(operator, store, 9, [])


@pytest.mark.parametrize("held", [defaultdict(lambda: 0), threading.Lock()], ids=["lambda", "lock"])
def test_state_that_cannot_be_pickled_is_told_with_its_key(held):
    class Keeping(AggregateFunction):
        def create_accumulator(self):
            return held

        def add(self, value, accumulator):
            return accumulator

        def get_result(self, accumulator):
            return accumulator

    operator = WindowOperator(TUMBLING, Aggregate(Keeping()))
    reported = (
        r"state of the windows cannot be pickled: \w+Error: .* \(for key 'a'\).* a module that executors can import"
    )
    with pytest.raises(FunctionError, match=reported):
        batch(operator, MemoryKeyStore(), -1, [(1, 5)])


def test_a_dynamic_gap_that_is_not_positive_is_told():
    assigner = DynamicEventTimeSessionWindows.with_dynamic_gap(lambda row: timedelta(seconds=-row["n"]))
    with pytest.raises(OptionError, match=r"gap=-1 day, 23:59:57 of DynamicEventTimeSessionWindows must be positive"):
        batch(WindowOperator(assigner, COUNT), MemoryKeyStore(), -1, [(3, 5)])


def test_a_row_that_fills_a_merged_session_exactly_keeps_its_rows():
    """Flink loses the earlier rows: it then stores the session under another window (MergingWindowSet.addWindow)."""
    assigner = DynamicEventTimeSessionWindows.with_dynamic_gap(lambda row: timedelta(milliseconds=row["n"]))
    operator, store = WindowOperator(assigner, Process(AllRows())), MemoryKeyStore()
    batch(operator, store, -1, [(10, 0), (11, 5), (16, 0)])
    assert batch(operator, store, 100, []) == [(0, [10, 11, 16])]


def test_the_cleanup_time_of_a_window_near_the_end_of_time_is_the_end_of_time():
    operator = WindowOperator(TUMBLING, COUNT, allowed_lateness=timedelta.max - timedelta(microseconds=999))
    run = KeyRun(operator, "a", MemoryKeyStore())
    run.process_element({"n": 1}, MAX_TIME - 10_000)
    end = run.event_timers()[0][2]
    assert run.event_timers() == [(end - 1, end - 10, end)]  # none for a cleanup that never comes
    run.advance_watermark(MAX_TIME)
    assert [result.timer for result in run.results] == [end - 1]
    run.process_element({"n": 1}, MAX_TIME - 10_000)
    assert run.late == [{"n": 1}]
