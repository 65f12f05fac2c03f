"""All imports that a connector needs; docs/write-a-connector.md shows their use.

A connector is a ``Source``, its ``SplitEnumerator`` on the driver and its ``SplitReader`` on the
executors.  ``tidegate.conformance`` proves that it keeps their contracts.
"""

from __future__ import annotations

from tidegate.alignment.budget import Cost
from tidegate.alignment.index import SupportsTimeIndex
from tidegate.alignment.splits import Extent, Head, Horizon, Positions, SplitId, SplitRange
from tidegate.enumerators.contract import (
    Json,
    ReaderPeek,
    SplitEnumerator,
    SupportsCost,
)
from tidegate.errors import (
    CheckpointError,
    ConnectorError,
    CorruptDataError,
    DataLossError,
    DeadlineError,
    OptionError,
    PositionGoneError,
    TransientError,
    UnavailableError,
)
from tidegate.readers.contract import (
    ReadTask,
    SplitReader,
    SupportsBadRecords,
    SupportsEventTimes,
    TimedBatch,
    TimedRows,
)
from tidegate.readers.event_time.policy import NO_TIME, EventTimePolicy, JudgedTimes
from tidegate.readers.retry import Deadline
from tidegate.sources.options import Duration
from tidegate.sources.source import Source

__all__ = [
    "NO_TIME",
    "CheckpointError",
    "ConnectorError",
    "CorruptDataError",
    "Cost",
    "DataLossError",
    "Deadline",
    "DeadlineError",
    "Duration",
    "EventTimePolicy",
    "Extent",
    "Head",
    "Horizon",
    "Json",
    "JudgedTimes",
    "OptionError",
    "PositionGoneError",
    "Positions",
    "ReadTask",
    "ReaderPeek",
    "Source",
    "SplitEnumerator",
    "SplitId",
    "SplitRange",
    "SplitReader",
    "SupportsBadRecords",
    "SupportsCost",
    "SupportsEventTimes",
    "SupportsTimeIndex",
    "TimedBatch",
    "TimedRows",
    "TransientError",
    "UnavailableError",
]
