"""Real servers for development, demonstrations, benchmarks and tests."""

from __future__ import annotations

from tidegate.servers.history import write_history
from tidegate.servers.kafka import KafkaSecurity, KafkaServer
from tidegate.servers.s3 import S3Server

__all__ = ["KafkaSecurity", "KafkaServer", "S3Server", "write_history"]
