"""The scenes and the picture on the pages show what the operator does."""

import doctest
import re
from pathlib import Path

from tests.windows.pictures import COMMAND, PICTURE, picture

PAGE = Path(__file__).parents[2] / "docs" / "window-examples.md"


def test_the_scenes_on_the_page_of_examples_run_as_they_stand():
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) >= 8
    examples = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, PAGE.name, str(PAGE), 0)
    told = []
    assert doctest.DocTestRunner().run(examples, out=told.append).failed == 0, "".join(told)


def test_the_picture_is_what_the_operator_gives():
    assert PICTURE.read_text(encoding="utf-8") == picture(), f"{PICTURE.name} is stale: run {COMMAND}"
