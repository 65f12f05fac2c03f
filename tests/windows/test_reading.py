"""Parts of windows say what they read of rows, the harness that runs them, and the scenes on their pages."""

import doctest
import re
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from tests.windows.pictures import COMMAND, PICTURE, picture
from tidegate.errors import OptionError
from tidegate.windows import (
    Aggregate,
    ContinuousEventTimeTrigger,
    CountEvictor,
    CountTrigger,
    DeltaEvictor,
    DeltaTrigger,
    DynamicEventTimeSessionWindows,
    EventTimeSessionWindows,
    EventTimeTrigger,
    ProcessingTimeoutTrigger,
    PurgingTrigger,
    SqlAggregates,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowOperator,
)
from tidegate.windows.rows import as_mappings
from tidegate.windows.testing import Pane, WindowHarness

SECOND = timedelta(seconds=1)
TUMBLING = TumblingEventTimeWindows.of(SECOND)
DELTA = DeltaTrigger.of(1, lambda last, row: 0)


class OfOnesOwn(EventTimeTrigger):
    pass


class PurgingOfOnesOwn(PurgingTrigger):
    pass


class TimeoutOfOnesOwn(ProcessingTimeoutTrigger):
    pass


@pytest.mark.parametrize(
    ("reads", "parts"),
    [
        (False, (TUMBLING,)),
        (False, (EventTimeSessionWindows.with_gap(SECOND),)),
        (True, (DynamicEventTimeSessionWindows.with_dynamic_gap(lambda row: SECOND),)),
        (False, (TUMBLING, PurgingTrigger.of(CountTrigger.of(2)))),
        (False, (TUMBLING, PurgingTrigger.of(ContinuousEventTimeTrigger.of(SECOND)))),
        (True, (TUMBLING, PurgingTrigger.of(DELTA))),
        (True, (TUMBLING, ProcessingTimeoutTrigger.of(DELTA, SECOND))),
        (False, (TUMBLING, ProcessingTimeoutTrigger.of(CountTrigger.of(2), SECOND))),
        (True, (TUMBLING, OfOnesOwn())),
        (True, (TUMBLING, PurgingOfOnesOwn.of(CountTrigger.of(2)))),
        (True, (TUMBLING, TimeoutOfOnesOwn.of(CountTrigger.of(2), SECOND))),
        (False, (TUMBLING, None, CountEvictor.of(2))),
        (True, (TUMBLING, None, DeltaEvictor.of(1, lambda row, last: 0))),
    ],
)
def test_an_operator_reads_rows_if_one_of_its_parts_may(reads, parts):
    assigner, *others = parts
    assert WindowOperator(assigner, Aggregate(SqlAggregates(n="sum(one)")), *others).reads_rows is reads


def test_a_map_with_a_doubled_key_is_one_sentence():
    doubled = pa.array([[("a", 1), ("a", 2)]], pa.map_(pa.string(), pa.int64()))
    with pytest.raises(OptionError, match=r"cannot give Python a value of their rows: .*; convert it in a step before"):
        as_mappings(pa.table({"m": doubled}))


PAGE = Path(__file__).parents[2] / "docs" / "window-examples.md"


def test_the_scenes_on_the_page_of_examples_run_as_they_stand():
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) >= 6
    examples = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, PAGE.name, str(PAGE), 0)
    reported = []
    assert doctest.DocTestRunner().run(examples, out=reported.append).failed == 0, "".join(reported)


def test_the_picture_is_what_the_operator_gives():
    assert PICTURE.read_text(encoding="utf-8") == picture(), f"{PICTURE.name} is stale: run {COMMAND}"


MS = timedelta(milliseconds=1)


def test_panes_of_several_keys_fire_in_order_of_time_and_tell_the_watermark():
    harness = WindowHarness(TumblingEventTimeWindows.of(10 * MS))
    harness.watermark(-5)
    for key, time in [("b", 15), ("a", 25), ("a", 5), ("b", 6)]:
        harness.element(key, {"at": time}, time)
    harness.watermark(19)
    harness.watermark(2**63 - 1)
    assert harness.panes == [
        Pane("b", 0, 10, [{"at": 6}], 19),
        Pane("a", 0, 10, [{"at": 5}], 19),
        Pane("b", 10, 20, [{"at": 15}], 19),
        Pane("a", 20, 30, [{"at": 25}], 2**63 - 1),
    ]


def test_a_key_that_comes_late_sees_the_watermark_and_the_clock():
    harness = WindowHarness(TumblingEventTimeWindows.of(10 * MS))
    harness.watermark(9)
    harness.element("new", {"n": 1}, 5)
    assert (harness.panes, harness.late) == ([], [{"n": 1}])

    harness = WindowHarness(TumblingProcessingTimeWindows.of(10 * MS))
    harness.processing_time(13)
    harness.element("new", {"n": 1}, 5)
    assert harness.processing_timers() == [("new", 19, 10, 20)]
    harness.processing_time(19)
    assert [(pane.start_ms, pane.rows) for pane in harness.panes] == [(10, [{"n": 1}])]
