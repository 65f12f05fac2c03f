from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.kafka.lab import Lab
from tests.support.objects.lab import Recorded
from tidegate.readers.s3.config import S3ConnectionConfig
from tidegate.servers import KafkaServer, S3Server


@pytest.fixture(scope="session")
def lab(kafka: KafkaServer) -> Lab:
    return Lab(kafka)


@pytest.fixture(scope="session")
def server(s3: S3Server) -> S3Server:
    """The S3 endpoint, with a bucket ``data``."""
    s3.create_bucket("data")
    return s3


@pytest.fixture(scope="session")
def config(server: S3Server, s3_config: S3ConnectionConfig) -> S3ConnectionConfig:
    return s3_config


@pytest.fixture
def store(config: S3ConnectionConfig) -> Recorded:
    """The bucket ``data``, which notes the ranges that are requested."""
    return Recorded(config, "data")


@pytest.fixture(scope="session")
def folder(server: S3Server) -> Path:
    """The folder of the bucket ``data``, in which objects may be written as files."""
    return server.folder / "data"
