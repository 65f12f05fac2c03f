from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.readers.lab import Lab

if TYPE_CHECKING:
    from tidegate.servers import KafkaServer


@pytest.fixture(scope="session")
def lab(kafka: KafkaServer) -> Lab:
    return Lab(kafka)
