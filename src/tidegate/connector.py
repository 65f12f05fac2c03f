"""All imports that a connector needs; docs/write-a-connector.md shows their use.

A connector is a ``Source``, its ``SplitEnumerator`` on the driver and its ``SplitReader`` on the
executors.  ``tidegate.conformance`` proves that it keeps their contracts.
"""

from __future__ import annotations

from tidegate.alignment.budget import Cost
from tidegate.alignment.horizon import Horizon
from tidegate.alignment.index import SupportsHold, SupportsPeek, SupportsTimeIndex
from tidegate.alignment.splits import Extent, Head, Positions, SplitId, SplitRange
from tidegate.enumerators.contract import (
    Completeness,
    Divergence,
    Json,
    SplitEnumerator,
    SupportsAvailability,
    SupportsCommit,
    SupportsCompleteness,
    SupportsCost,
    SupportsDetails,
    SupportsMetrics,
    SupportsOvershoot,
    SupportsValidation,
    SupportsWaiting,
)
from tidegate.enumerators.probing import ReaderPeek
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
    "Completeness",
    "ConnectorError",
    "CorruptDataError",
    "Cost",
    "DataLossError",
    "Deadline",
    "DeadlineError",
    "Divergence",
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
    "SupportsAvailability",
    "SupportsBadRecords",
    "SupportsCommit",
    "SupportsCompleteness",
    "SupportsCost",
    "SupportsDetails",
    "SupportsEventTimes",
    "SupportsHold",
    "SupportsMetrics",
    "SupportsOvershoot",
    "SupportsPeek",
    "SupportsTimeIndex",
    "SupportsValidation",
    "SupportsWaiting",
    "TimedBatch",
    "TimedRows",
    "TransientError",
    "UnavailableError",
]
