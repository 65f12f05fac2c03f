"""A bucket of an S3 server that all tests of sources share."""

import pytest

from tests.sources.buckets import Bucket
from tidegate.servers import S3Server


@pytest.fixture(scope="session")
def s3():
    with S3Server() as server:
        yield server


@pytest.fixture
def bucket(s3):
    made = Bucket(s3)
    yield made
    made.close()
