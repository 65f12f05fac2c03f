"""Source connectors for PySpark that read splits in event-time order.

    import tidegate

    tidegate.register(spark)
    df = spark.readStream.format("tidegate_kafka").option(...).load()

See ``KafkaSource`` for the options, and ``docs/`` for what is guaranteed.
"""

from __future__ import annotations

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
