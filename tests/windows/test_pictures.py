"""The picture of the docs shows what the operator does."""

from tests.windows.pictures import COMMAND, PICTURE, picture


def test_the_picture_is_what_the_operator_gives():
    assert PICTURE.read_text(encoding="utf-8") == picture(), f"{PICTURE.name} is stale: run {COMMAND}"
