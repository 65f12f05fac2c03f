"""The window operator: the parts that all keys share, checked when it is built."""

from __future__ import annotations

import warnings
from datetime import timedelta

from tidegate.errors import OptionError
from tidegate.windows.assigners.contract import GlobalWindows, WindowAssigner
from tidegate.windows.description import described, described_function
from tidegate.windows.evictors import Evictor
from tidegate.windows.functions.results import Aggregate, WindowFunction
from tidegate.windows.triggers.contract import Trigger
from tidegate.windows.window import MAX_TIME, Window, duration_ms


class WindowOperator:
    """Flink's WindowOperator: assigner, trigger, evictor, function and allowed lateness.

    The operator keeps no state; a ``KeyRun`` handles one key of one batch.  ``trigger=None`` takes the assigner's
    trigger.  Raises OptionError if the parts do not fit, and warns of state that would be kept for ever.
    """

    def __init__(
        self,
        assigner: WindowAssigner,
        function: WindowFunction,
        trigger: Trigger | None = None,
        evictor: Evictor | None = None,
        allowed_lateness: timedelta = timedelta(0),
    ) -> None:
        self.assigner, self.function, self.evictor = assigner, function, evictor
        self.trigger = assigner.get_default_trigger() if trigger is None else trigger
        self.allowed_lateness = duration_ms("allowed_lateness", allowed_lateness, 0)
        self.in_event_time = assigner.is_event_time()
        self.kept_for = self.allowed_lateness if self.in_event_time else 0
        """How long windows are kept behind their ends, in ms."""
        self.folding = function if isinstance(function, Aggregate) and evictor is None else None
        """The function whose folded value panes keep; None: panes keep rows."""
        self._check()

    @property
    def event_time(self) -> bool | None:
        """Return whether event-time timers are used; None: unknown before the trigger runs."""
        return self.in_event_time or self.trigger.event_time

    @property
    def processing_time(self) -> bool | None:
        """Return whether processing-time timers are used; None: unknown before the trigger runs."""
        cleans_up = not self.in_event_time and not isinstance(self.assigner, GlobalWindows)
        return cleans_up or self.trigger.processing_time

    @property
    def reads_watermark(self) -> bool:
        """Return whether results may depend on the watermark: by windows, timers, or a context that shows it."""
        return self.event_time is not False or self.evictor is not None or self.function.process is not None

    @property
    def reads_rows(self) -> bool:
        """Return whether trigger, assigner or evictor may read columns of rows, besides those of the function."""
        parts = (self.trigger, self.assigner, self.evictor)
        return any(part.reads_rows for part in parts if part is not None)

    @property
    def description(self) -> dict[str, str]:
        """Return the parts as text.  State of an operator with another description does not fit this operator."""
        return {
            "assigner": described(self.assigner),
            "trigger": described(self.trigger),
            "evictor": described(self.evictor),
            "allowed lateness": str(timedelta(milliseconds=self.allowed_lateness)),
            "function": described_function(self.function),
        }

    def cleanup_time(self, window: Window) -> int:
        """Return the time in ms at which a window's state is removed; 2**63 - 1: never."""
        return min(window.max_timestamp() + self.kept_for, MAX_TIME)

    def _check(self) -> None:
        assigner, trigger = type(self.assigner).__name__, type(self.trigger).__name__
        if self.assigner.merges and not self.trigger.can_merge():
            raise OptionError(f"{trigger} cannot be used with {assigner}, whose windows merge: it has no on_merge.")
        if self.assigner.merges and self.folding is not None and not self.folding.can_merge():
            raise OptionError(f"The aggregate function needs merge, because windows of {assigner} merge.")
        if isinstance(self.assigner, GlobalWindows) and self.evictor is None and not self.trigger.frees_rows:
            warnings.warn(
                f"GlobalWindows with {trigger} keeps state for ever: "
                f"use PurgingTrigger.of({trigger}...), an evictor, or windows of time.",
                stacklevel=3,
            )
