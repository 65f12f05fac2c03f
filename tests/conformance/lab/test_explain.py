"""Explanations of failures agree with an oracle that knows the changes of the rows."""

import re

from hypothesis import given
from hypothesis import strategies as st

from tidegate.conformance.lab.explain import difference, ordered_difference


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
