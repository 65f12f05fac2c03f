"""Generators of users that fail: one sentence names them."""

import pyarrow as pa
import pytest

from tidegate.alignment.generators.split_watermark import GeneratorRun, SplitWatermark, new_generator
from tidegate.alignment.strategy import WatermarkStrategy
from tidegate.errors import ContractError, OptionError
from tidegate.watermarks import WatermarkGenerator

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
        (lambda: None, "the supplier of watermark generators returned NoneType, which is no WatermarkGenerator"),
        (doing("on_event", fail), r"the watermark generator Mine failed in on_event\(\): KeyError: 'shop'"),
        (doing("on_periodic_emit", fail), r"the watermark generator Mine failed in on_periodic_emit\(\)"),
        (doing("snapshot", fail), r"the watermark generator Mine failed in snapshot\(\): KeyError"),
        (doing("restore", fail), r"the watermark generator Mine failed in restore\(\): KeyError"),
        (doing("snapshot", lambda: {"at": object()}), r"Mine failed in snapshot\(\): it is no JSON"),
        (doing("snapshot", lambda: {"at": float("nan")}), r"Mine failed in snapshot\(\): it is no JSON"),
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


def test_a_generator_in_place_of_its_supplier_is_refused_at_once():
    with pytest.raises(OptionError, match="the generator is Silent, but it must be a function that returns a new one"):
        WatermarkStrategy.for_generator(Silent())
