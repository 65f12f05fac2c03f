"""Objects that are markers, and their periods."""

from datetime import datetime, timezone

import pytest

from tidegate.enumerators.s3.times.markers import parse_markers

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
