"""The S3 endpoint, for what enumerators list and keep there."""

import pytest


@pytest.fixture(scope="session")
def server(s3):
    """The S3 endpoint, with a bucket ``state``."""
    s3.create_bucket("state")
    return s3


@pytest.fixture(scope="session")
def config(server, s3_config):
    return s3_config
