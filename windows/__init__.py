"""Flink's windows and triggers.  Pure logic: no I/O, no Spark, no clock."""

from __future__ import annotations

from tidegate.windows.assigners.contract import GlobalWindows, MergeCallback, MergingWindowAssigner, WindowAssigner
from tidegate.windows.assigners.of_time import (
    DynamicEventTimeSessionWindows,
    DynamicProcessingTimeSessionWindows,
    EventTimeSessionWindows,
    ProcessingTimeSessionWindows,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from tidegate.windows.contexts import (
    EvictorContext,
    OnMergeContext,
    ProcessWindowContext,
    TriggerContext,
    WindowAssignerContext,
)
from tidegate.windows.evictors import CountEvictor, DeltaEvictor, Evictor, TimeEvictor, TimestampedValue
from tidegate.windows.functions.results import (
    Aggregate,
    AggregateFunction,
    Process,
    ProcessWindowFunction,
    Reduce,
    WindowFunction,
)
from tidegate.windows.functions.sql import SqlAggregate, SqlAggregates
from tidegate.windows.key_run import KeyRun
from tidegate.windows.key_windows import Fired
from tidegate.windows.operator import WindowOperator
from tidegate.windows.state.descriptors import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from tidegate.windows.triggers.contract import Trigger, TriggerResult
from tidegate.windows.triggers.nested import ProcessingTimeoutTrigger, PurgingTrigger
from tidegate.windows.triggers.of_time import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    EndOfStreamTrigger,
    EventTimeTrigger,
    NeverTrigger,
    ProcessingTimeTrigger,
)
from tidegate.windows.triggers.rows import CountTrigger, DeltaTrigger
from tidegate.windows.window import GlobalWindow, TimeWindow, Window

__all__ = [
    "Aggregate",
    "AggregateFunction",
    "ContinuousEventTimeTrigger",
    "ContinuousProcessingTimeTrigger",
    "CountEvictor",
    "CountTrigger",
    "DeltaEvictor",
    "DeltaTrigger",
    "DynamicEventTimeSessionWindows",
    "DynamicProcessingTimeSessionWindows",
    "EndOfStreamTrigger",
    "EventTimeSessionWindows",
    "EventTimeTrigger",
    "Evictor",
    "EvictorContext",
    "Fired",
    "GlobalWindow",
    "GlobalWindows",
    "KeyRun",
    "ListStateDescriptor",
    "MapStateDescriptor",
    "MergeCallback",
    "MergingWindowAssigner",
    "NeverTrigger",
    "OnMergeContext",
    "Process",
    "ProcessWindowContext",
    "ProcessWindowFunction",
    "ProcessingTimeSessionWindows",
    "ProcessingTimeTrigger",
    "ProcessingTimeoutTrigger",
    "PurgingTrigger",
    "Reduce",
    "ReducingStateDescriptor",
    "SlidingEventTimeWindows",
    "SlidingProcessingTimeWindows",
    "SqlAggregate",
    "SqlAggregates",
    "TimeEvictor",
    "TimeWindow",
    "TimestampedValue",
    "Trigger",
    "TriggerContext",
    "TriggerResult",
    "TumblingEventTimeWindows",
    "TumblingProcessingTimeWindows",
    "ValueStateDescriptor",
    "Window",
    "WindowAssigner",
    "WindowAssignerContext",
    "WindowFunction",
    "WindowOperator",
]
