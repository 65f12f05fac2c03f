"""Real servers for development, demonstrations, benchmarks and tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidegate.servers.kafka import KafkaServer

if TYPE_CHECKING:
    from tidegate.servers.history import write_history

__all__ = ["KafkaServer", "write_history"]


def __getattr__(name: str) -> Any:
    """Import NumPy and the codecs only for those who write history."""
    if name == "write_history":
        from tidegate.servers.history import write_history

        return write_history
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
