"""The code for users of Flink runs as it is written, up to the start of a query."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "from-flink.md"


@pytest.mark.filterwarnings("ignore:GlobalWindows with NeverTrigger")
def test_each_concept_of_flink_has_code_that_runs(spark):
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) >= 10
    names = {"spark": spark, "servers": "localhost:9"}
    for block in blocks:
        exec(compile(block, PAGE.name, "exec"), names)  # noqa: S102 - that is what the page is for
    assert names["totals"].columns == ["page", "window_start", "window_end", "total", "output", "late_row"]
