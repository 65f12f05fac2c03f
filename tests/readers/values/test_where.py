"""Conditions in SQL, beside SQLite's three-valued logic and Spark's own filters, and what is refused."""

import datetime as dt
import pickle
import random
import sqlite3
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import functions as f

from tidegate.readers.values.where import condition_of

ROWS = pa.table(
    {
        "a": pa.array([None, -1, 0, 1, 2, 2**40], pa.int64()),
        "b": pa.array([0, None, 1, 1, -1, 2], pa.int64()),
        "c": pa.array(["x", "y", None, "", "x", "é"]),
    }
).to_batches()[0]

COLUMNS = st.sampled_from(["a", "b"])
NUMBERS = st.integers(-2, 2).map(str)
COMPARISONS = st.one_of(
    st.builds("{} {} {}".format, COLUMNS, st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "!="]), COLUMNS | NUMBERS),
    st.builds("c {} '{}'".format, st.sampled_from(["=", "<", ">="]), st.sampled_from(["x", "", "é", "y"])),
    st.builds(
        "{} {}IN ({})".format, COLUMNS, st.sampled_from(["", "NOT "]), st.lists(NUMBERS, min_size=1).map(", ".join)
    ),
    st.builds("{} IS {}NULL".format, st.sampled_from(["a", "b", "c"]), st.sampled_from(["", "NOT "])),
)
CONDITIONS = st.recursive(
    COMPARISONS,
    lambda inner: st.one_of(
        st.builds("{} {} {}".format, inner, st.sampled_from(["AND", "or"]), inner),
        st.builds("NOT ({})".format, inner),
        st.builds("({})".format, inner),
    ),
    max_leaves=6,
)


@pytest.fixture(scope="module")
def sqlite():
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE rows (a INTEGER, b INTEGER, c TEXT)")
    connection.executemany("INSERT INTO rows VALUES (?, ?, ?)", [tuple(row.values()) for row in ROWS.to_pylist()])
    return connection


@given(CONDITIONS)
def test_a_condition_is_true_false_or_unknown_as_in_sqlite(sqlite, text):
    expected = [None if found is None else bool(found) for (found,) in sqlite.execute(f"SELECT {text} FROM rows")]  # noqa: S608
    condition = pickle.loads(pickle.dumps(condition_of(text, ROWS.schema)))  # noqa: S301
    assert condition(ROWS).to_pylist() == expected


MIDNIGHT = dt.datetime(2026, 11, 2, tzinfo=dt.timezone.utc)
TYPED = {
    "whole": (pa.int32(), "INT", [None, 0, 16777217, -2147483648, 2, 1]),
    "long": (pa.int64(), "BIGINT", [None, 0, 2**53 + 1, -(2**63), 2, 1]),
    "single": (pa.float32(), "FLOAT", [None, 0.1, 16777217.0, float("nan"), -0.0, float("inf")]),
    "real": (pa.float64(), "DOUBLE", [None, 0.1, float("nan"), float("nan"), 0.0, 2.5]),
    "money": (pa.decimal128(20, 2), "DECIMAL(20,2)", [None, *map(Decimal, ("0.10", "2.00", "2.50", "-1.00", "0.33"))]),
    "flag": (pa.bool_(), "BOOLEAN", [None, True, False, True, False, True]),
    "text": (pa.string(), "STRING", [None, "", "a", "B", "é", "2"]),
    "day": (pa.date32(), "DATE", [None, *(dt.date(2026, 11, day) for day in (1, 2, 3, 4, 5))]),
    "at": (pa.timestamp("us", "UTC"), "TIMESTAMP", [None, *(MIDNIGHT + dt.timedelta(hours=hour) for hour in range(5))]),
}
OF_TYPES = [
    "whole > 1.5", "whole = 16777217", "whole < 3000000000", "whole in (0, 2.5, 1)", "whole = 1e0",
    "long > 9007199254740992", "long = 9007199254740992e0", "long = whole",
    "long >= 1.50", "single = 0.1", "single = 16777217", "single > real", "single = 0", "single >= 0.1",
    "single < 1e300", "real = 0.1", "real = real", "real > 1000000", "real <> 0.1", "real <= 0.1",
    "0.1 < real", "real = -0.0", "real in (0.1, 2.5)", "money = 0.1", "money > 0.333", "money = 2",
    "money in (2, 0.10)", "money = 0.1e0", "money > real", "money < whole", "flag", "not flag", "flag = true",
    "flag <> false", "flag > false", "text > 'a'", "text = ''", "text in ('a', '2')", "day > '2026-11-02'",
    "day = date '2026-11-03'", "day <= '2026-11'", "at > '2026-11-02T01:00:00Z'",
    "at = timestamp '2026-11-02 04:00:00+02:00'", "at in ('2026-11-02 00:00:00 UTC')", "whole is null",
    "not (flag and real > 1)", "text is not null or flag",
]  # fmt: skip


NUMBERS_BESIDE = [
    "0", "-1", "1", "2.50", "-0.0", "16777217", "9007199254740993", "9223372036854775807", "0.1", "0.33", "1e0",
    "1e300",
]  # fmt: skip
COMPARABLE = [
    (["whole", "long", "single", "real", "money"], NUMBERS_BESIDE),
    (["flag"], ["true", "false"]),
    (["text"], ["''", "'a'", "'B'", "'é'"]),
    (["day"], ["'2026-11-02'", "date '2026-11'"]),
    (["at"], ["'2026-11-02T01:00:00Z'", "timestamp '2026-11-02 02:30:00+02:00'"]),
]
OPERATORS = ["=", "<>", "<", "<=", ">", ">="]


def at_random(count):
    """Yield conditions over the columns."""
    chance = random.Random(43)

    def leaf():
        columns, literals = chance.choices(COMPARABLE, [5, 1, 1, 1, 1])[0]
        column, others = chance.choice(columns), chance.choices(literals, k=2)
        if chance.random() < 0.2:
            return f"{column} {chance.choice(['', 'NOT '])}IN ({', '.join(others)})"
        return f"{column} {chance.choice(OPERATORS)} {chance.choice([*columns, *others])}"

    for _ in range(count):
        yield chance.choice(["{}", "{} AND NOT ({})", "{} OR {}", "NOT ({} OR flag)"]).format(leaf(), leaf())


def test_types_are_coerced_as_spark_does(spark):
    schema = pa.schema([(name, kind) for name, (kind, _, _) in TYPED.items()])
    texts = [*OF_TYPES, *at_random(200)]
    rows = pa.record_batch([pa.array(values, kind) for kind, _, values in TYPED.values()], schema=schema)
    ddl = ", ".join(f"{name} {kind}" for name, (_, kind, _) in TYPED.items())
    frame = spark.createDataFrame([*zip(*(values for _, _, values in TYPED.values()), strict=True)], ddl).coalesce(1)
    found = frame.select(*(f.expr(text).alias(f"c{place}") for place, text in enumerate(texts))).collect()
    for place, text in enumerate(texts):
        ours = condition_of(text, schema)(rows).to_pylist()
        assert ours == [row[place] for row in found], text


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a = 1 foo", "not 'a = 1 AS foo'$"),
        ("a = 1; drop", "expected comparisons, IN and IS NULL"),
        ("a like 'x'", "not \"a LIKE 'x'\"$"),
        ("a between 1 and 2", "not 'a BETWEEN 1 AND 2'$"),
        ("a <=> 1", "expected comparisons"),
        ("a + 1 = 2", r"not 'a \+ 1'$"),
        ("upper(c) = 'X'", "not 'UPPER"),
        ("a = (select 1)", "expected comparisons"),
        ("a in (select 1)", "expected comparisons"),
        ("a in (1, null)", "not 'NULL'$"),
        ("a = null", "not 'NULL'$"),
        ("a = b = 1", "not 'a = b'$"),
        ("a", "the column a is of the type BIGINT, not a condition$"),
        ("true", "not 'TRUE'$"),
        ("1 = 1", "1 and 1 are both literals$"),
        ("a = 1 and", "it is malformed"),
        ("", "it is malformed$"),
        ("c = 'it''s'", "expected comparisons"),
        ("c = 'a\\nb'", "a text has no escapes$"),
        ("c = 1", "c, of the type STRING, and 1, of the type INT, cannot be compared$"),
        ("a = '1'", "cannot be compared$"),
        ("bb = 1", "there is no column 'bb'; did you mean 'b'"),
        ("a.x = 1", r"there is no column 'a\.x'$"),
        ("a = 1.00000000000000000001", "cannot be compared$"),
        ("a < 1e400", "1e400 is beyond the range of a double$"),
        ("a is true", "not 'TRUE'$"),
        ("a = 0x1F", "expected comparisons"),
    ],
)
def test_all_else_is_refused_in_one_sentence(text, sentence):
    with pytest.raises(ValueError, match=sentence) as raised:
        condition_of(text, ROWS.schema)
    assert "\n" not in str(raised.value)


def test_times_that_a_session_would_place_are_refused():
    schema = pa.schema([("at", pa.timestamp("us", "UTC")), ("local", pa.timestamp("us")), ("key", pa.binary())])
    for text, sentence in {
        "at > '2026-11-02 00:00:00'": "needs a zone, as in '2026-11-21T12:00:00Z'",
        "local > '2026-11-02 00:00:00Z'": "needs no zone",
        "at > 'soon'": "'soon' is not a time, such as",
        "at = local": "cannot be compared",
        "key = 'a'": "cannot be compared; keyFormat and valueFormat 'string' make texts of bytes",
    }.items():
        with pytest.raises(ValueError, match=sentence):
            condition_of(text, schema)
    assert condition_of("local = '2026-11-02 00:00:00'", schema)
    assert condition_of("KEY is null", schema)
