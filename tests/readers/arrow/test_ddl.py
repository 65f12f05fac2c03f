"""Columns in Spark's DDL, beside Spark's own parser."""

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql.types import StructType

from tidegate.readers.arrow.ddl import columns_of_ddl
from tidegate.spark_private import from_arrow_schema

NUMBERS = ["byte", "tinyint", "short", "smallint", "INT", "integer", "long", "bigint", "float", "real", "double"]
TIMES = ["date", "timestamp", "timestamp_ltz", "timestamp_ntz"]
SIMPLE = st.sampled_from([*NUMBERS, *TIMES, "boolean", "string", "binary", "decimal", "dec(3)", "numeric(38,38)"])
NAMES = st.sampled_from(["a", "`b c`", "`x``y`", "order", "timestamp", "_1", "`é`", "struct", "not"])
TYPES = st.recursive(
    SIMPLE,
    lambda inner: st.one_of(
        st.builds("array<{}>".format, inner),
        st.builds("MAP < string , {} >".format, inner),
        st.builds("struct<{} : {} not null, `z`{} comment 'it is, <z>'>".format, NAMES, inner, inner.map(" {}".format)),
    ),
    max_leaves=4,
)
COLUMNS = st.lists(st.tuples(NAMES, TYPES), min_size=1, max_size=3, unique_by=lambda column: column[0])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(COLUMNS)
def test_columns_are_those_of_spark_but_nullable(spark, columns):
    text = ", ".join(f"{name} {kind}" for name, kind in columns)
    theirs = StructType.fromDDL(text)
    assert from_arrow_schema(columns_of_ddl(text)).simpleString() == theirs.simpleString()
    assert columns_of_ddl(f"struct<{text}>") == columns_of_ddl(text)
    assert all(field.nullable for field in columns_of_ddl(text))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "a name or a type is missing$"),
        ("a", "a name or a type is missing after 'a'$"),
        ("a INT b INT", "'b' is not expected there$"),
        ("a INT,", "is missing after ','$"),
        ("a lng", "there is no type 'LNG' that can be read; did you mean 'LONG'"),
        ("a INT(5)", r"'\(' is not expected there$"),
        ("a DECIMAL(39)", "a decimal has 1 to 38 digits"),
        ("a DECIMAL(2, 3)", "a decimal has 1 to 38 digits"),
        ("a DECIMAL(x)", "'x' is not a number$"),
        ("a INT, A INT", "it names the column 'A' twice$"),
        ("a STRUCT<>", "'>' is not the name of a column$"),
        ("a ARRAY<INT", "'>' is missing after 'INT'$"),
        ("a INT COMMENT b", "COMMENT has no text$"),
        ("a INT NOT", "'NULL' is missing"),
        ("a INT; b", "it is malformed at its character 6$"),
        ("a-b INT", "it is malformed at its character 2$"),
        ("a VARIANT", "there is no type 'VARIANT' that can be read"),
        ("é INT", "it is malformed at its character 1$"),
        ("5 INT", "'5' is not the name of a column$"),
    ],
)
def test_other_texts_are_refused_in_one_sentence(text, sentence):
    with pytest.raises(ValueError, match="^expected columns in Spark's DDL, such as 'id BIGINT.*" + sentence):
        columns_of_ddl(text)


def test_types_are_arrows():
    assert columns_of_ddl("a timestamp, b map<int, array<double>>") == pa.schema(
        [
            ("a", pa.timestamp("us", "UTC")),
            ("b", pa.map_(pa.int32(), pa.list_(pa.field("element", pa.float64())))),
        ]
    )
