from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tidegate.servers import KafkaServer

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaServer]:
    with KafkaServer() as server:
        yield server
