"""The settings of a source for its coordinator, grouped by who decides them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidegate.alignment.plan import Limits
from tidegate.alignment.strategy import WatermarkStrategy
from tidegate.enumerators.planning.assigner import ANY_SIZES, TaskSizes
from tidegate.readers.event_time.policy import EventTimePolicy


@dataclass(frozen=True, slots=True)
class CoordinatorSettings:
    """The settings of a source; see the options of the same names.

    watermarks: the strategy, which users may also give as one object.
    limits: those limits of a batch that the source decides; the strategy and each batch decide the others.
    event_times: the policy that says where the future begins, and whether records wait there.
    counts_bad_records: readers set bad records aside, and report how many.
    spark_follows_watermark: Spark's watermark follows the source's.
    options_digest: changes with any option: records that were left out may count now.
    add_ons: by add-on, its description of the state that Spark keeps of the rows; offsets hold it.
    """

    watermarks: WatermarkStrategy
    limits: Limits = field(default_factory=Limits)
    tasks: TaskSizes = ANY_SIZES
    event_times: EventTimePolicy = field(default_factory=EventTimePolicy)
    discovery_interval_s: float = 30.0
    max_trigger_delay_s: float = 900.0
    counts_bad_records: bool = False
    spark_follows_watermark: bool = False
    options_digest: str = ""
    add_ons: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
