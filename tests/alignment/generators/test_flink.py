"""tidegate and Flink agree: traces that Flink has answered (``flink.py`` records them)."""

import pytest

from tests.alignment.generators.flink import first_difference, recorded


@pytest.mark.parametrize("first_key", ["inputs", "disorder", "steps"])
def test_watermarks_and_statuses_are_those_of_flink(first_key):
    traces = [(trace, flinks) for trace, flinks in recorded() if next(iter(trace)) == first_key]
    assert len(traces) > 50
    for trace, flinks in traces:
        assert first_difference(trace, flinks) is None, trace
