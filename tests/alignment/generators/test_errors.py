"""Generators of users that fail, and traces that Flink has answered (``flink.py`` records them)."""

from datetime import timedelta

import pyarrow as pa
import pytest

from tests.alignment.generators.flink import first_difference, recorded
from tidegate.alignment.generators import GeneratorRun, SplitWatermark, new_generator
from tidegate.alignment.strategy import WatermarkStrategy
from tidegate.errors import ContractError, OptionError
from tidegate.watermarks import BoundedOutOfOrdernessWatermarks, WatermarkGenerator

TIMES = pa.array([10, 20], pa.int64())


class Silent(WatermarkGenerator):
    def on_event(self, batch, event_times, output):
        pass


def doing(method, action):
    return type("Mine", (Silent,), {method: lambda self, *arguments: action(*arguments)})


def fail(*_):
    raise KeyError("shop")


def run(supplier, state=None):
    shown = GeneratorRun(new_generator(supplier), SplitWatermark(state=state))
    shown.add(pa.record_batch([TIMES], ["at"]), TIMES)
    return shown.end()


@pytest.mark.parametrize(
    ("supplier", "sentence"),
    [
        (doing("__init__", fail), "the supplier of watermark generators failed: KeyError: 'shop'"),
        (lambda: None, "the supplier of watermark generators returned NoneType instead of a WatermarkGenerator"),
        (doing("on_event", fail), r"the watermark generator Mine failed in on_event\(\): KeyError: 'shop'"),
        (doing("on_periodic_emit", fail), r"the watermark generator Mine failed in on_periodic_emit\(\)"),
        (doing("snapshot", fail), r"the watermark generator Mine failed in snapshot\(\): KeyError"),
        (doing("restore", fail), r"the watermark generator Mine failed in restore\(\): KeyError"),
        (doing("snapshot", lambda: {"at": object()}), r"Mine failed in snapshot\(\): it is not JSON"),
        (doing("snapshot", lambda: {"at": float("nan")}), r"Mine failed in snapshot\(\): it is not JSON"),
        (doing("snapshot", lambda: [1]), r"Mine failed in snapshot\(\): it is list, and no mapping"),
        (doing("snapshot", lambda: {"rows": "x" * 5000}), "at most 4096 are allowed"),
        *(
            (doing("on_event", lambda _, __, output, at=at: output.emit_watermark(at)), "takes milliseconds as an int")
            for at in (None, "12", 12.7, float("nan"))
        ),
    ],
)
def test_what_a_generator_does_wrong_is_one_sentence(supplier, sentence):
    with pytest.raises(ContractError, match=sentence):
        run(supplier, {"rows": 1})


def test_a_watermark_never_goes_back():
    def emit(_, times, output):
        output.emit_watermark(times.max())
        output.emit_watermark(5)

    assert run(doing("on_event", emit)) == SplitWatermark(20)


@pytest.mark.parametrize(
    ("supplier", "name"),
    [
        (Silent(), "Silent"),
        (lambda context: Silent(), ".*<lambda>"),
        (BoundedOutOfOrdernessWatermarks, "BoundedOutOfOrdernessWatermarks"),
        (None, "NoneType"),
    ],
)
def test_anything_but_a_supplier_of_generators_is_refused_at_once(supplier, name):
    must = "but it must be a function without arguments that returns a new one for each split"
    with pytest.raises(OptionError, match=f"the generator is {name}, {must}"):
        WatermarkStrategy.for_generator(supplier)


@pytest.mark.parametrize("supplier", [Silent, dict, lambda *remainder, at=1, **more: Silent()])
def test_what_can_be_called_without_arguments_may_supply_generators(supplier):
    assert WatermarkStrategy.for_generator(supplier).generator is supplier


@pytest.mark.parametrize(
    ("disorder", "must"),
    [(5, "is 5, but it must be a timedelta"), (timedelta(seconds=-1), "must be zero or more")],
)
def test_a_disorder_of_a_generator_that_is_no_duration_is_refused_at_once(disorder, must):
    with pytest.raises(OptionError, match=f"max_out_of_orderness .*{must}"):
        BoundedOutOfOrdernessWatermarks(disorder)


@pytest.mark.parametrize("first_key", ["inputs", "disorder", "steps"])
def test_watermarks_and_statuses_are_those_of_flink(first_key):
    traces = [(trace, flinks) for trace, flinks in recorded() if next(iter(trace)) == first_key]
    assert len(traces) > 50
    for trace, flinks in traces:
        assert first_difference(trace, flinks) is None, trace
