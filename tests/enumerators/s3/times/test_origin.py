"""The option eventTime of S3, and the error for a value without a meaning."""

import pytest

from tidegate.enumerators.s3.times.origin import LAST_MODIFIED, ColumnTimes, parse_origin
from tidegate.enumerators.s3.times.paths import PathTimes


@pytest.mark.parametrize(
    ("text", "origin"),
    [
        ("lastModified", LAST_MODIFIED),
        ("column:at", ColumnTimes("at")),
        ("column:outer.inner:x", ColumnTimes("outer.inner:x")),
        ("path:dt={yyyy-MM-dd}", PathTimes("dt={yyyy-MM-dd}")),
    ],
)
def test_each_origin_is_read_from_its_text(text, origin):
    assert parse_origin(text) == origin


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("lastmodified", "did you mean 'lastModified'"),
        ("colum:at", "did you mean 'column:'"),
        ("column:", "expected lastModified, column:NAME or path:TEMPLATE$"),
        ("path", "expected lastModified, column:NAME or path:TEMPLATE"),
        ("path:dt={YYYY}", "unknown unit 'YYYY'; did you mean 'yyyy'"),
        ("lastModified:x", "expected lastModified, column:NAME or path:TEMPLATE"),
    ],
)
def test_another_text_is_told_with_what_is_nearest(text, sentence):
    with pytest.raises(ValueError, match=sentence):
        parse_origin(text)
