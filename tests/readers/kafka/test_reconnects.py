"""Pauses and time-outs grow with each failed connection, as in Java, and are short again after a success."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tidegate.errors import TransientError
from tidegate.readers.kafka.config import KafkaConnectionConfig
from tidegate.readers.kafka.reconnects import FailedConnections


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


CONFIG = KafkaConnectionConfig("here")


def test_the_pause_before_another_attempt_doubles_up_to_its_limit_for_each_broker() -> None:
    clock = Clock()
    failures = FailedConnections(replace(CONFIG, reconnect_pauses_s=(1, 3)), clock)
    for pause_s in (1, 2, 3, 3):
        failures.check("a:1")
        failures.add("a:1", TransientError("it is away"))
        clock.now += pause_s - 0.001
        with pytest.raises(TransientError, match=r"^it is away$"):
            failures.check("a:1")
        failures.check("b:1")
        clock.now += 0.001
    failures.forget("a:1")
    failures.add("a:1", TransientError("it is away"))
    clock.now += 1
    failures.check("a:1")


def test_without_a_pause_every_attempt_is_made() -> None:
    failures = FailedConnections(CONFIG, Clock())
    failures.add("a:1", TransientError("it is away"))
    failures.check("a:1")


@pytest.mark.parametrize(
    ("properties", "grown"),
    [
        ({}, [None] * 3),
        ({"socket_connection_setup_timeout_ms": 10}, [10, 10, 10]),
        (
            {"socket_connection_setup_timeout_ms": 10, "socket_connection_setup_timeout_max_ms": 30},
            [10, 20, 30],
        ),
    ],
)
def test_the_time_of_an_attempt_doubles_up_to_its_limit(properties: dict[str, Any], grown: list[int | None]) -> None:
    failures = FailedConnections(replace(CONFIG, properties=properties))
    for setup_ms in grown:
        assert failures.within("a:1").get("socket_connection_setup_timeout_ms") == setup_ms
        failures.add("a:1", TransientError("it is away"))
    assert failures.within("b:1").get("socket_connection_setup_timeout_ms") == grown[0]
