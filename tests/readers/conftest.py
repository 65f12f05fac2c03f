from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import pytest

with warnings.catch_warnings():
    # kafka-python loads its schemas in a way that Python 3.11 calls deprecated and 3.13 does not.
    warnings.simplefilter("ignore", DeprecationWarning)
    from tests.readers.lab import Lab

if TYPE_CHECKING:
    from tidegate.servers import KafkaServer


@pytest.fixture(scope="session")
def lab(kafka: KafkaServer) -> Lab:
    return Lab(kafka)
