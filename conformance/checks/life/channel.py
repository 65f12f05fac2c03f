"""LIFE: the channel on which readers send source events."""

from __future__ import annotations

from contextlib import closing
from datetime import timedelta

from tidegate.alignment.generators.bounded import BoundedOutOfOrdernessWatermarks
from tidegate.alignment.strategy import WatermarkStrategy
from tidegate.conformance.errors import NotApplicableError
from tidegate.conformance.lab.lab import Lab, after
from tidegate.conformance.lab.spark.planner import Told, told_by_readers
from tidegate.conformance.rules import rule
from tidegate.readers.contract import SupportsEventTimes

_ROWS = 5


def _disordered() -> BoundedOutOfOrdernessWatermarks:
    return BoundedOutOfOrdernessWatermarks(timedelta(seconds=1))


@rule("LIFE-20")
def source_events_reach_the_coordinator_and_end_with_the_query(lab: Lab) -> None:
    lab.split(*after(*range(_ROWS)))
    source = lab.source()
    reader = source.reader(None)
    if not isinstance(reader, SupportsEventTimes):
        raise NotApplicableError(f"{type(reader).__name__} has no {SupportsEventTimes.__name__}, which is optional")
    lab.wait_until_discovered(source)
    generated = source.model_copy(update={"watermarks": WatermarkStrategy.for_generator(_disordered)})
    with closing(lab.elsewhere()) as planner:
        told: Told = planner.call(told_by_readers, generated, _ROWS)
    lab.expect(
        told.read_here == 0, f"the planner read {told.read_here} positions itself, because no reader reported them"
    )
    lab.expect(told.rows == _ROWS, f"{_ROWS} rows were read, but readers reported {told.rows}")
    lab.expect(not told.hears_strangers, "an event without the token of the run is accepted")
    lab.expect(not told.is_open, "after the stream was stopped, its port still takes connections")
    lab.expect(not told.threads, f"after the stream was stopped, these threads still run: {', '.join(told.threads)}")
