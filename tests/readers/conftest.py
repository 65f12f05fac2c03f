from __future__ import annotations

import pytest

from tests.readers.kafka.wire import security_matrix
from tests.support.kafka.lab import Lab
from tidegate.readers.s3.config import S3ConnectionConfig
from tidegate.readers.s3.store import ObjectStore
from tidegate.servers import KafkaServer, S3Server


@pytest.fixture(scope="session")
def lab(kafka: KafkaServer) -> Lab:
    return Lab(kafka)


@pytest.fixture(scope="session")
def secured(tmp_path_factory):
    """A broker with TLS, logins and rights."""
    with security_matrix.place(tmp_path_factory.mktemp("security")) as made:
        yield made


@pytest.fixture(scope="session")
def server(s3: S3Server) -> S3Server:
    """The S3 endpoint, with a bucket ``data``."""
    s3.create_bucket("data")
    return s3


@pytest.fixture(scope="session")
def config(server: S3Server, s3_config: S3ConnectionConfig) -> S3ConnectionConfig:
    return s3_config


@pytest.fixture
def store(config: S3ConnectionConfig) -> ObjectStore:
    """The bucket ``data``, as a query reads it."""
    return ObjectStore(config, "data")
