"""Sources over a bucket of the test's own."""

import pytest

from tidegate import S3Source


@pytest.fixture
def source(bucket, tmp_path):
    """Make sources over the bucket that keep their state in the test's folder, unless its fields say otherwise."""

    def make(**fields):
        place = {"path": bucket.path, "state_location": str(tmp_path / "state")}
        return S3Source(**{**place, **bucket.connection, **fields})

    return make
