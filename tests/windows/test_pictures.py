"""The picture of the docs shows what the operator does."""

from tests.windows.pictures import COMMAND, PICTURE, TRIGGERS, Firing, firings, picture


def test_the_picture_is_what_the_operator_gives():
    assert PICTURE.read_text(encoding="utf-8") == picture(), f"{PICTURE.name} is stale: run {COMMAND}"


def test_a_late_row_fires_at_once_and_one_beyond_the_lateness_does_not():
    # The watermark passes 20 s with the row that comes at 24 s.
    assert firings(*TRIGGERS["EventTimeTrigger"])[:2] == [Firing(24, 0, 6), Firing(27, 0, 7)]
    assert firings(*TRIGGERS["PurgingTrigger of it"])[:2] == [Firing(24, 0, 6), Firing(27, 0, 1)]
