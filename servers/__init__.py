"""Real servers for development, demonstrations, benchmarks and tests."""

from __future__ import annotations

from tidegate.servers.history import write_history
from tidegate.servers.kafka import KafkaServer

__all__ = ["KafkaServer", "write_history"]
