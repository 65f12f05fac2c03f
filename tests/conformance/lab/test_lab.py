"""The kit's own tools: the judge of batches, explanations of failures, and failures in another process."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.conformance.lab import processes
from tidegate.conformance.lab.base import ConformanceError
from tidegate.conformance.lab.explain import difference, ordered_difference
from tidegate.conformance.lab.processes import in_another_process
from tidegate.conformance.lab.query import Batch, dropped

SPLITS = {0: ["0#0", "0#1", "0#2"], 1: ["1#0", "1#1"]}
TIMES = {"0#0": 0, "0#1": 10, "0#2": 20, "1#0": 5, "1#1": 25}


def batches(*of):
    """Return batches of these keys."""
    return [Batch(n, {}, {}, keys.split()) for n, keys in enumerate(of)]


@pytest.mark.parametrize(
    ("read", "said"),
    [
        (("0#0 0#1", "1#0"), "1#0 of batch 1: by the watermark of the batch itself"),
        (("0#0", "0#1 1#0"), None),  # the watermark comes from earlier batches
        (("0#0 0#1", "0#2", "1#0 1#1"), "1#0 of batch 2: by the watermark of the batch before"),
        (("0#0 1#0", "0#1 0#2", "1#1"), None),
    ],
)
def test_spark_drops_what_lies_at_or_before_the_greatest_time_of_earlier_batches(read, said):
    verdict = dropped(SPLITS, TIMES, batches(*read), 0)
    assert verdict is None if said is None else said in verdict


@pytest.mark.parametrize(("out_of_orderness_ms", "wrong"), [(4, True), (5, True), (6, False)])
def test_the_out_of_orderness_is_sparks_delay(out_of_orderness_ms, wrong):
    assert (dropped(SPLITS, TIMES, batches("0#0 0#1", "1#0"), out_of_orderness_ms) is not None) == wrong


def test_spark_may_drop_what_is_further_out_of_order_than_allowed():
    splits, times, read = {0: ["0#0", "0#1"]}, {"0#0": 10, "0#1": 4}, batches("0#0", "0#1")
    assert dropped(splits, times, read, 5) is None
    assert "0#1 is late by 0 ms" in dropped(splits, times, read, 6)


def written(*sizes):
    return {split: [f"{split}#{number}" for number in range(size)] for split, size in enumerate(sizes)}


def delivered(rows):
    return [key for keys in rows.values() for key in keys]


def count(text, what):
    """Return the number before some words in the first line."""
    match = re.search(rf"([\d,]+) {what}", text.splitlines()[0])
    return 0 if match is None else int(match[1].replace(",", ""))


SIZES = st.lists(st.integers(0, 8), min_size=1, max_size=8)


@given(SIZES, st.data())
def test_what_is_wrong_is_counted_by_kind(sizes, data):
    rows = written(*sizes)
    keys = delivered(rows)
    lost = data.draw(st.sets(st.sampled_from(keys)) if keys else st.just(set()))
    left = [key for key in keys if key not in lost]
    doubled = data.draw(st.sets(st.sampled_from(left)) if left else st.just(set()))
    foreign = data.draw(st.sets(st.sampled_from(["9#0", "9#1", "x"])))
    text = difference(rows, [*left, *sorted(doubled), *sorted(foreign)], in_order=False)
    if not (lost or doubled or foreign):
        assert text is None
        return
    assert count(text, "missing") == len(lost)
    assert count(text, "more than once") == len(doubled)
    assert count(text, "never written") == len(foreign)
    assert count(text, "out of order") == 0
    assert count(text, "delivered") == len(left) + len(doubled) + len(foreign)


@given(SIZES, st.randoms(use_true_random=False))
def test_rows_are_out_of_order_that_come_after_a_later_one_of_their_split(sizes, random):
    rows = written(*sizes)
    mixed = delivered(rows)
    random.shuffle(mixed)
    behind = 0
    for at, key in enumerate(mixed):
        split, number = map(int, key.split("#"))
        behind += any(f"{split}#{later}" in mixed[:at] for later in range(number + 1, len(rows[split])))
    text = difference(rows, mixed)
    assert (text is None) == (behind == 0)
    assert text is None or count(text, "out of order") == behind
    assert difference(rows, mixed, in_order=False) is None


def test_a_diff_shows_a_lost_row_between_its_neighbours():
    rows = written(7, 2)
    assert difference(rows, [key for key in delivered(rows) if key != "0#3"]) == (
        "9 rows were written and 8 delivered: 1 missing\n"
        "  split 0, 7 rows:\n"
        "     0#0\n"
        "     0#1\n"
        "     0#2\n"
        "    -0#3\n"
        "     0#4\n"
        "     0#5\n"
        "     0#6"
    )


def test_a_long_diff_ends_and_so_do_many():
    assert len(difference(written(*[100] * 9), []).splitlines()) == 1 + 5 * (1 + 12) + 1


def test_a_row_that_nobody_wrote_is_named():
    text = difference(written(2), ["?", "0#0", "x" * 300, "0#1"])
    assert text.endswith(f"  never written: ?, {'x' * 200}... (300 characters)")


@given(st.lists(st.sampled_from("abc"), max_size=6), st.lists(st.sampled_from("abc"), max_size=6))
def test_two_readings_differ_from_the_first_row_that_is_another(first, second):
    text = ordered_difference("read twice", first, second)
    if first == second:
        assert text is None
        return
    at = int(re.search(r"differ from row (\d+) on", text)[1])
    assert first[:at] == second[:at]
    assert first[at : at + 1] != second[at : at + 1]
    shown = [line[5:] for line in text.splitlines()[1:] if line[4] != "+"]
    assert shown == first[max(0, at - 3) :][: len(shown)]
    assert ("the same rows in another order" in text) == (sorted(first) == sorted(second))


def a_lock():
    return threading.Lock()


def dies():
    os.kill(os.getpid(), signal.SIGKILL)


def leaves_a_thread():
    threading.Thread(target=threading.Event().wait).start()
    return "held"


@pytest.mark.parametrize(
    ("function", "complaint"),
    [(a_lock, r"cannot pickle '_thread\.lock' object"), (dies, r"another process died in dies\(\)")],
)
def test_what_cannot_come_back_is_a_complaint(function, complaint):
    with pytest.raises(ConformanceError, match=complaint):
        in_another_process(function)


def test_a_thread_keeps_no_process_after_its_result():
    assert in_another_process(leaves_a_thread) == "held"


def test_a_call_that_hangs_is_a_complaint(monkeypatch):
    monkeypatch.setattr(processes, "_PROCESS_S", 0.1)
    with pytest.raises(ConformanceError, match=r"sleep\(\) did not end within .* s in another process"):
        in_another_process(time.sleep, 3_600)


def test_a_function_that_is_not_found_there_is_a_complaint(monkeypatch):
    module = ModuleType("nowhere_else")
    exec("def here():\n    pass", module.__dict__)  # noqa: S102 - only this process knows it
    monkeypatch.setitem(sys.modules, "nowhere_else", module)
    with pytest.raises(ConformanceError, match="No module named 'nowhere_else'"):
        in_another_process(module.here)


def test_without_java_the_session_ends_with_a_sentence(tmp_path):
    program = "from tidegate.conformance.lab.spark import shared_session; shared_session()"
    environment = {**os.environ, "JAVA_HOME": str(tmp_path)}
    ended = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False
    )
    assert ended.stderr.splitlines()[-1] == (
        "tidegate.errors.InstallationError: Spark's Java does not start: Java 17 or newer is needed "
        f"(JAVA_HOME is {tmp_path})"
    )
