"""Sources over a bucket of the test's own."""

from contextlib import closing

import pytest

from tidegate import S3Source, WatermarkStrategy
from tidegate.enumerators.planning.coordinator import SourceCoordinator
from tidegate.enumerators.planning.settings import CoordinatorSettings


def coordinating(source):
    """Return a coordinator of a source, without Spark; it closes at the end of the block."""
    return closing(SourceCoordinator("s3", source.enumerator, CoordinatorSettings(WatermarkStrategy()), cores=2))


@pytest.fixture
def source(bucket, tmp_path):
    """Make sources over the bucket that keep their state in the test's folder, unless its fields say otherwise."""

    def make(**fields):
        place = {"path": bucket.path, "state_location": str(tmp_path / "state")}
        return S3Source(**{**place, **bucket.connection, **fields})

    return make
