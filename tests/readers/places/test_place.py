"""Which locations are places of files."""

import pytest

from tidegate.readers.places.place import check_location


@pytest.mark.parametrize("location", ["", " ", "s3://", "s3:///x", "https://bucket/x"])
def test_a_location_that_is_none_is_refused(location):
    with pytest.raises(ValueError, match="expected a folder, or s3://bucket/prefix"):
        check_location(location)


@pytest.mark.parametrize(
    "location", ["bad", "/var/bad", "file:///var/bad", "file:/var/bad", "S3://b", "s3a://b/x", "s3n://b"]
)
def test_folders_and_buckets_are_locations(location):
    assert check_location(location) == location
