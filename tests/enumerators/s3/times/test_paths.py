"""Times and markers in keys, against datetime's own formatting; the option eventTime."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tidegate.enumerators.s3.times.origin import LAST_MODIFIED, ColumnTimes, parse_markers, parse_origin
from tidegate.enumerators.s3.times.paths import PathTimes
from tidegate.readers.objects.values import TimeRange

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
FORMATS = {"yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S"}
MILLISECOND = timedelta(milliseconds=1)

times = st.datetimes(datetime(1000, 1, 1), datetime(9999, 12, 30, 23), timezones=st.just(timezone.utc))  # noqa: DTZ001 - the strategy adds the zone
texts = st.text(st.characters(codec="utf-8", exclude_characters="{}0123456789"), max_size=5)


def ms(when: datetime) -> int:
    return (when - EPOCH) // MILLISECOND


def period(when: datetime, finest: str) -> TimeRange:
    """The period by counting on until datetime shows another name."""
    named = "".join(FORMATS[token] for token in list(FORMATS)[: list(FORMATS).index(finest) + 1])
    begin = when.replace(microsecond=0)
    for token, lowest in zip(("month", "day", "hour", "minute", "second"), (1, 1, 0, 0, 0), strict=True):
        if begin.replace(**{token: lowest}).strftime(named) == begin.strftime(named):
            begin = begin.replace(**{token: lowest})
    steps = {"yyyy": timedelta(days=1), "MM": timedelta(days=1), "dd": timedelta(hours=1), "HH": timedelta(minutes=1)}
    step = steps.get(finest, timedelta(seconds=1))
    end = begin
    while end.strftime(named) == begin.strftime(named):
        end += step
    return TimeRange(ms(begin), ms(end) - 1)


@st.composite
def templates(draw) -> tuple[str, str, str]:
    """A template, the same as a format of strftime, and its finest unit."""
    tokens = list(FORMATS)[: draw(st.integers(1, 6))]
    finest = tokens[-1]
    tokens = draw(st.permutations(tokens))
    template, pattern, is_open = draw(texts), "", False
    pattern = template.replace("%", "%%")
    for token in tokens:
        if is_open and draw(st.booleans()):
            between = draw(st.sampled_from(["", "-", "/", ".", ":", " "]))
            template += between
            pattern += between
        else:
            between = draw(texts)
            template += ("}" if is_open else "") + between + "{"
            pattern += between.replace("%", "%%")
            is_open = True
        template += token
        pattern += FORMATS[token]
    remainder = draw(texts)
    return template + "}" + remainder, pattern + remainder.replace("%", "%%"), finest


def formatted(when: datetime, pattern: str) -> str:
    # strftime will not do: it fails on surrogates and NUL, and does not pad years before 1000.
    for code in FORMATS.values():
        number = getattr(
            when, {"%Y": "year", "%m": "month", "%d": "day", "%H": "hour", "%M": "minute", "%S": "second"}[code]
        )
        pattern = pattern.replace("%%", "\0").replace(code, f"{number:0{4 if code == '%Y' else 2}}").replace("\0", "%%")
    return pattern.replace("%%", "%")


@given(templates(), times, texts, texts)
def test_a_period_is_found_anywhere_in_the_key(made, when, before, after):
    template, pattern, finest = made
    assume("\0" not in pattern)
    key = before + formatted(when, pattern) + after
    assert PathTimes(template).range_of(key) == period(when, finest)


@pytest.mark.parametrize(
    ("template", "key", "begin", "end"),
    [
        ("dt={yyyy-MM-dd}/hour={HH}", "a/dt=2026-02-28/hour=07/part-1.json", "2026-02-28T07:00", "2026-02-28T08:00"),
        ("{yyyyMMdd}T{HHmmss}", "x-20260131T235959.gz", "2026-01-31T23:59:59", "2026-02-01T00:00"),
        ("{yyyy}/{MM}", "logs/2024/02/", "2024-02-01", "2024-03-01"),
        ("{dd.MM.yyyy}", "31.12.1969", "1969-12-31", "1970-01-01"),
        ("year={yyyy}", "year=2024", "2024-01-01", "2025-01-01"),
        ("y={yyyy}/m={M}/d={d}/h={H}", "in/y=2026/m=1/d=31/h=7/x.json", "2026-01-31T07:00", "2026-01-31T08:00"),
        ("y={yyyy}/m={M}/d={d}/h={H}", "in/y=2026/m=11/d=03/h=17/x", "2026-11-03T17:00", "2026-11-03T18:00"),
        ("{yyyy-M-d H:m}", "2026-1-2 3:4", "2026-01-02T03:04", "2026-01-02T03:05"),
        ("{yyyy-MM-dd}", "1234-56-78/2024-02-30/2024-02-29", "2024-02-29", "2024-03-01"),
        ("a+b ({yyyy})", "a+b (2024)", "2024-01-01", "2025-01-01"),
    ],
)
def test_known_keys(template, key, begin, end):
    begin_ms, end_ms = (ms(datetime.fromisoformat(text).replace(tzinfo=timezone.utc)) for text in (begin, end))
    assert PathTimes(template).range_of(key) == TimeRange(begin_ms, end_ms - 1)


@pytest.mark.parametrize(
    ("template", "key"),
    [
        ("dt={yyyy-MM-dd}", "dt=2026-02-30"),
        ("dt={yyyy-MM-dd}", "dt=2026-13-01"),
        ("dt={yyyy-MM-dd}", "dt=0000-01-01"),
        ("dt={yyyy-MM-dd}", "dt=2026-1-01"),
        ("dt={yyyy-MM-dd}", "DT=2026-01-01"),
        ("dt={yyyy-MM-dd}", "dt=\u0662\u0660\u0662\u0666-01-01"),
        ("dt={yyyy-MM-dd}", ""),
        ("{yyyyMMddHH}", "2026010124"),
        ("{yyyy}", "20261"),
        ("{yyyy-M}", "2026-001"),
        ("{yyyy-M}", "2026-13"),
        ("{yyyy}", "12026"),
        ("a.{yyyy}", "ab2026"),
    ],
)
def test_keys_that_name_no_time(template, key):
    assert PathTimes(template).range_of(key) is None


@pytest.mark.parametrize(
    ("template", "sentence"),
    [
        ("", "has no time in it"),
        ("dt=yyyy", "has no time in it; expected one such as dt={yyyy-MM-dd}"),
        ("{}", "has braces without a time"),
        ("{-}", "has braces without a time"),
        ("dt={yyyy", "has an unmatched '{'"),
        ("dt=yyyy}", "has an unmatched '}'"),
        ("{{yyyy}}", "has an unmatched '{'"),
        ("{YYYY}", "the unknown unit 'YYYY'; did you mean 'yyyy'"),
        ("{yyyy-MM-DD}", "the unknown unit 'DD'; did you mean 'dd'"),
        ("{yyyyM}", "has 'yyyy' and 'M' without a text between them"),
        ("{yyyy}{M}", "has 'yyyy' and 'M' without a text between them"),
        ("{yyyyMMddHHm}", "has 'HH' and 'm' without a text between them"),
        ("{yyyy}-0{M}", "has '0' and 'M' without a text between them"),
        ("{yyyy-M}0/x", "has 'M' and '0' without a text between them"),
        ("{yyyy-M-MM}", "the template has 'MM' twice"),
        ("{M}", "has 'MM' without 'yyyy'"),
        ("{yyyy-MM-dd hh}", "the unknown unit 'hh'; did you mean 'HH'"),
        ("{quarter}", "the unknown unit 'q'; known are yyyy, MM, dd, HH, mm, ss"),
        ("{yyyy-MM-dd}/{mm}", "has 'mm' without 'HH'"),
        ("{HH}", "has 'HH' without 'yyyy'"),
        ("{yyyy}{dd}", "has 'dd' without 'MM'"),
        ("{yyyy}/{yyyy-MM}", "has 'yyyy' twice"),
        ("{ms}", "the unknown unit 's'; did you mean 'ss'?"),
    ],
)
def test_a_template_that_says_no_time_is_refused_in_one_sentence(template, sentence):
    with pytest.raises(ValueError, match=r"^[^\n]+$") as refused:
        PathTimes(template)
    assert sentence in str(refused.value)


HOUR_MS = 3_600_000
MARKERS = parse_markers("marker:dt={yyyy-MM-dd}/hour={HH}/_SUCCESS")
FIVE = int(datetime(2024, 1, 1, 5, tzinfo=timezone.utc).timestamp()) * 1000


@pytest.mark.parametrize(
    ("key", "is_marker"),
    [
        ("in/dt=2024-01-01/hour=05/_SUCCESS", True),
        ("in/dt=2024-01-01/hour=05/_SUCCESS.crc", False),
        ("in/dt=2024-01-01/hour=05/part-0.json", False),
        ("in/dt=2024-01-01/_SUCCESS", False),
        ("in/dt=2024-01-01/hour=05/part=7/_SUCCESS", False),
        ("in/dt=2024-01-01/hour=05_SUCCESS", False),
        ("in/dt=2024-13-01/hour=05/_SUCCESS", False),
        ("_SUCCESS", False),
    ],
)
def test_a_marker_has_the_name_and_lies_in_a_folder_with_a_time(key, is_marker):
    assert MARKERS.are(key) == is_marker


@pytest.mark.parametrize("name", ["_SUCCESS", "part-0.json", "deeper/part-0.json"])
def test_all_objects_of_a_folder_have_its_period(name):
    assert MARKERS.folder_of(f"in/dt=2024-01-01/hour=05/{name}") == ("in/", (FIVE, FIVE + HOUR_MS - 1))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("header:x", "expected marker:TEMPLATE"),
        ("markr:{yyyy}/_SUCCESS", "did you mean 'marker:'"),
        ("marker:_SUCCESS", "has no folder with a time and a marker's name after it"),
        ("marker:{yyyy}/", "has no folder with a time and a marker's name after it"),
        ("marker:day/done-{yyyyMMdd}", "has no folder with a time and a marker's name after it"),
        ("marker:in/_SUCCESS", "has no time in it"),
        ("marker:{HH}/_SUCCESS", "so it names no time"),
    ],
)
def test_a_wrong_template_is_one_sentence(text, sentence):
    with pytest.raises(ValueError, match=sentence):
        parse_markers(text)


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
