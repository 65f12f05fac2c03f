"""The keys that a user means."""

import pytest

from tidegate.jobs.ledger.listed import Wanted


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("in/*.json", "in/*.json"),
        ("s3://bucket/in/a", "in/a"),
        ("S3A://bucket/in/a", "in/a"),
        ("s3n://bucket/in/a", "in/a"),
        ("s3://bucket//a", "/a"),  # a key may begin with a slash
        ("in/https://host/a", "in/https://host/a"),
    ],
)
def test_a_key_may_be_named_with_its_bucket(text, pattern):
    assert Wanted(text).pattern == pattern
