"""Values of state come back as they were, and only plain ones are JSON."""

from collections import OrderedDict
from datetime import datetime, time, timedelta, timezone
from decimal import Decimal
from enum import IntEnum
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from hypothesis import example, given
from hypothesis import strategies as st

from tidegate.windows.state.plain import of_bytes, to_bytes

BERLIN = ZoneInfo("Europe/Berlin")
UTC_OR_NONE = st.sampled_from([None, timezone.utc])
ZONES = st.sampled_from([None, timezone.utc, timezone(timedelta(hours=1)), timezone(timedelta(0), "zero"), BERLIN])


class Pair(NamedTuple):
    one: Any
    other: Any


class Text(str):
    __slots__ = ()


class Number(IntEnum):
    ONE = 1


class Moment(datetime):
    pass


class Instant(time):
    pass


def same(value):
    """Return what differs wherever two values do: with types, time zones and folds, and nan as itself."""
    kind = type(value)
    if isinstance(value, (list, tuple)):
        return kind, [same(item) for item in value]
    if isinstance(value, dict):
        return kind, [(same(key), same(held)) for key, held in value.items()]
    if isinstance(value, (datetime, time)):
        return kind, value.replace(tzinfo=None).isoformat(), repr(value.tzinfo), value.fold
    return kind, value if kind is int else repr(value)


plain = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
    st.decimals(),
    st.text(st.characters(codec=None)),
    st.binary(),
    st.dates(),
    st.datetimes(timezones=UTC_OR_NONE).map(lambda moment: moment.replace(fold=0)),
    st.times(timezones=UTC_OR_NONE).map(lambda moment: moment.replace(fold=0)),
)
others = st.one_of(
    st.integers().filter(lambda number: abs(number) > 2**63),
    st.builds(datetime.replace, st.datetimes(timezones=ZONES), fold=st.integers(0, 1)),
    st.builds(time.replace, st.times(timezones=ZONES), fold=st.integers(0, 1)),
    st.text().map(Text),
    st.frozensets(st.integers(), max_size=1),
    st.complex_numbers(allow_nan=False),
    st.timedeltas(),
)


def nested(leaves):
    keys = leaves.filter(lambda value: not (isinstance(value, Decimal) and value.is_snan()))
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.lists(inner, max_size=4),
            st.lists(inner, max_size=4).map(tuple),
            st.dictionaries(st.one_of(keys, st.tuples(keys, keys)), inner, max_size=4),
        ),
        max_leaves=12,
    )


NOON = datetime(2026, 10, 25, 2, 30, tzinfo=timezone.utc)
ZONED = [NOON.replace(fold=1), *(NOON.replace(tzinfo=zone) for zone in (BERLIN, timezone(timedelta(0), "zero")))]


@given(nested(st.one_of(plain, others)))
@example([*ZONED, *(moment.timetz() for moment in ZONED)])
@example([2**63, -(2**63) - 1, 10**5_000])  # Python writes no number that is so long
@example([Moment(2026, 1, 1), Instant(1), Text("a"), Number.ONE, Pair(1, 2), OrderedDict(a=1)])
@example("\ud83d\ude00")  # two surrogates are not the one character of both
@example([[[[[[[[(1,)]]]]]]]])
@example({1: "int", "1": "text", (True, 1.0): False, None: -0.0})
def test_values_come_back_with_their_types_time_zones_and_folds(value):
    assert same(of_bytes(to_bytes(value))) == same(value)


@given(plain)
def test_plain_values_are_not_pickled(value):
    for held in (value, [value], (value,), {"key": value}, {(1, "a"): value}):
        assert b'{"pickle":' not in to_bytes(held)
