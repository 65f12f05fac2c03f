"""Source connectors for PySpark that read splits in event-time order.

    import tidegate

    tidegate.register(spark)
    df = spark.readStream.format("tidegate_kafka").option(...).load()

See ``KafkaSource`` for the options, and ``docs/`` for what is guaranteed.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidegate.alignment.strategy import WatermarkStrategy
    from tidegate.errors import (
        CheckpointError,
        ConnectorError,
        ContractError,
        CorruptDataError,
        DataLossError,
        DeadlineError,
        OptionError,
        ServerError,
        TidegateError,
    )
    from tidegate.sources.contract import Source
    from tidegate.sources.kafka import KafkaSource
    from tidegate.sources.registration import register

__all__ = [
    "CheckpointError",
    "ConnectorError",
    "ContractError",
    "CorruptDataError",
    "DataLossError",
    "DeadlineError",
    "KafkaSource",
    "OptionError",
    "ServerError",
    "Source",
    "TidegateError",
    "WatermarkStrategy",
    "register",
]

_HOMES = {
    "KafkaSource": "tidegate.sources.kafka",
    "Source": "tidegate.sources.contract",
    "WatermarkStrategy": "tidegate.alignment.strategy",
    "register": "tidegate.sources.registration",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used (PEP 562): the command line starts without PySpark."""
    if name not in __all__:
        raise AttributeError(f"module 'tidegate' has no attribute {name!r}")
    found = getattr(import_module(_HOMES.get(name, "tidegate.errors")), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
