"""The user's settings of event time: disorder, idleness, and how far splits may drift apart.

The vocabulary is Flink's: ``WatermarkStrategy``, ``forBoundedOutOfOrderness``, ``withIdleness``
(FLIP-126) and ``withWatermarkAlignment`` (FLIP-182, FLIP-217).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from tidegate.alignment.durations import milliseconds
from tidegate.alignment.generators import GeneratorSupplier
from tidegate.errors import StrategyError

_LONGEST_NAME = 64
_LEAST = {
    "out_of_orderness": ("out-of-orderness", timedelta(0), "zero or more"),
    "idle_timeout": ("idle timeout", timedelta.resolution, "more than zero"),
    "max_drift": ("max drift", timedelta(milliseconds=1), "at least one millisecond"),
    "group_lease": ("group lease", timedelta.resolution, "more than zero"),
}
"""For each duration its name in errors, the least that is allowed, and that in words."""


@dataclass(frozen=True, slots=True)
class WatermarkStrategy:
    """How a source derives its watermark and keeps its splits together.

    Immutable; start from one of the four class methods and refine with ``with_...``.

    out_of_orderness: how far out of order the records of one split may be without being late.
        In Python, None: no watermark is planned.
    generator: creates a watermark generator for each split.
    timestamp_assigner: where event times come from, as in the source's option event_time; None: as that option says.
    idle_timeout: how long a split must have nothing to read before it stops holding back others; with ``availableNow``,
        from an earlier run to the begin of this one, and for half the usual time between runs.
    max_drift: how far past the slowest split's next record any split may be read.  Default: no bound.
    group: align with the slowest split of all sources that name this group.  Default: of this source alone.
    group_members: how many sources the group has.  Default: the group does not wait for sources that join later.
    group_location: a folder that all applications of the group can reach.  Default: all members are in one application.
    group_lease: how long a silent member of the group holds back the others, and how long they wait for an absent one.
    """

    out_of_orderness: timedelta | None = timedelta(0)
    idle_timeout: timedelta = timedelta(minutes=1)
    max_drift: timedelta | None = None
    group: str | None = None
    group_members: int | None = None
    group_location: str | None = None
    group_lease: timedelta = timedelta(minutes=1)
    generator: GeneratorSupplier | None = field(default=None, repr=False)
    timestamp_assigner: str | Callable[..., Any] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for name, (shown, least, must) in _LEAST.items():
            duration = getattr(self, name)
            if duration is not None and not isinstance(duration, timedelta):
                raise StrategyError(
                    f"{name} is {duration!r}", name, must="must be a timedelta, such as timedelta(hours=1)"
                )
            if duration is not None and duration < least:
                raise StrategyError(f"{shown} is {_shown(duration)}", name, must=f"must be {must}")
        self._check_group()

    def _check_group(self) -> None:
        needs_group = (self.group_members, self.group_location)
        if self.group is None and any(value is not None for value in needs_group):
            raise StrategyError(
                "a number of members or a location is set, but no alignment group",
                "group_members",
                "group_location",
                "group",
            )
        if self.group is not None and self.max_drift is None:
            raise StrategyError(
                f"the alignment group is {self.group!r}, but a group needs a max drift", "group", "max_drift"
            )
        if self.group is not None and not 0 < len(self.group) <= _LONGEST_NAME:
            raise StrategyError(
                f"the alignment group is {self.group!r}", "group", must=f"must have 1 to {_LONGEST_NAME} characters"
            )
        if self.group_members is not None and self.group_members < 1:
            raise StrategyError(
                f"the number of group members is {self.group_members}", "group_members", must="must be at least one"
            )

    @classmethod
    def for_bounded_out_of_orderness(cls, bound: timedelta) -> WatermarkStrategy:
        """Allow records of a split to be up to ``bound`` behind the greatest event time before them."""
        return cls(out_of_orderness=bound)

    @classmethod
    def for_monotonous_timestamps(cls) -> WatermarkStrategy:
        """Assume that event times never go back within a split."""
        return cls(out_of_orderness=timedelta(0))

    @classmethod
    def for_generator(cls, supplier: GeneratorSupplier) -> WatermarkStrategy:
        """Take the watermark from generators; ``supplier`` creates one for each split.

        The watermark of a batch comes from the rows before the batch.

        Raises StrategyError if ``supplier`` cannot be called without arguments.  Such are a generator in place of its
        class, and a function of a context as in Flink.
        """
        if not _takes_nothing(supplier):
            name = getattr(supplier, "__qualname__", type(supplier).__name__)
            raise StrategyError(
                f"the generator is {name}",
                "generator",
                must="must be a function without arguments that returns a new one for each split, such as its class",
            )
        return cls(out_of_orderness=None, generator=supplier)

    @classmethod
    def no_watermarks(cls) -> WatermarkStrategy:
        """Compute no watermark; alignment still works."""
        return cls(out_of_orderness=None)

    def with_timestamp_assigner(self, assigner: str | Callable[..., Any]) -> WatermarkStrategy:
        """Take the event times of rows from ``assigner`` (Flink: withTimestampAssigner).

        assigner: a value of the source's option event_time, such as ``json:/created``, or for Kafka a function from a
            RecordBatch to an int64 array of milliseconds.  A source refuses both at once.
        """
        return replace(self, timestamp_assigner=assigner)

    def with_idleness(self, timeout: timedelta) -> WatermarkStrategy:
        """Let a split that had nothing to read for ``timeout`` stop holding back the others."""
        return replace(self, idle_timeout=timeout)

    def with_watermark_alignment(
        self,
        *,
        max_drift: timedelta,
        group: str | None = None,
        members: int | None = None,
        location: str | None = None,
        lease: timedelta = timedelta(minutes=1),
    ) -> WatermarkStrategy:
        """Never read a split ``max_drift`` or more past the slowest split's next record.

        In a back-fill ``max_drift`` is also the slice of event time that one batch covers.

        group: keep together with all sources of the application that name this group, in any query.  All need the same
            max drift.
        members: how many sources the group has.  No source reads until all have joined, or until the lease has passed.
        location: also keep together with sources of other applications that name the same folder: a path that the
            machines of all drivers share, or ``s3://bucket/prefix``.
        lease: how long a source that was killed holds back the others; longer than its restart takes.
        """
        return replace(
            self,
            max_drift=max_drift,
            group=group,
            group_members=members,
            group_location=location,
            group_lease=lease,
        )

    @property
    def has_watermarks(self) -> bool:
        """Whether the source has a watermark of its own."""
        return self.generator is not None or self.out_of_orderness is not None

    @property
    def out_of_orderness_ms(self) -> int | None:
        """The out-of-orderness in milliseconds; None without watermarks."""
        return None if self.out_of_orderness is None else milliseconds(self.out_of_orderness)

    @property
    def max_drift_ms(self) -> int | None:
        """The max drift in milliseconds; None without a bound."""
        return None if self.max_drift is None else milliseconds(self.max_drift)


def _shown(duration: timedelta) -> str:
    """Show a negative duration as such; Python would show "-1 day, 23:00:00"."""
    return f"-{-duration}" if duration < timedelta(0) else str(duration)


def _takes_nothing(function: Any) -> bool:
    """Return whether something is a function that can be called without arguments, as far as its signature says."""
    try:
        inspect.signature(function).bind()
    except ValueError:  # some functions in C have no signature
        return True
    except TypeError:
        return False
    return True
