from datetime import datetime, timezone

import pytest

from tidegate import OptionError
from tidegate.jobs.arguments import parse_properties, parse_time

NEW_YEAR = datetime(2026, 1, 1, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    "text", ["2026-01-01", "2026-01-01T00:00", "2026-01-01T00:00Z", "2026-01-01T01:00+01:00", "1767225600000"]
)
def test_a_time_is_utc_where_it_names_no_zone(text):
    assert parse_time("--from", text) == NEW_YEAR


def test_a_number_counts_milliseconds_before_1970_too():
    assert parse_time("--from", "-1000") == datetime(1969, 12, 31, 23, 59, 59, tzinfo=timezone.utc)


@pytest.mark.parametrize("text", ["", "yesterday", "2026-13-01", "9" * 30, "1767225600.5"])
def test_what_is_no_time_is_named_with_its_option(text):
    with pytest.raises(OptionError, match=f"^--from is '{text}', but a time is expected, such as 2026-01-31"):
        parse_time("--from", text)


def test_properties_lose_their_prefix_and_keep_their_equals_signs():
    assert parse_properties("--kafka", ["kafka.client.id=a", "ssl.password=b=c"]) == {
        "client.id": "a",
        "ssl.password": "b=c",
    }
    with pytest.raises(OptionError, match=r"^--kafka 'client.id' has no value"):
        parse_properties("--kafka", ["client.id"])
