"""The picture of docs/watermarks.md shows what the code does."""

from tests.alignment.generators.pictures import COMMAND, PICTURE, late, picture, steps


def test_the_picture_is_of_this_code():
    assert PICTURE.read_text(encoding="utf-8") == picture(), f"run {COMMAND}"


def test_the_rows_of_a_split_that_trails_are_late_for_spark_s_watermark_only():
    assert len(late("sparks")) > 10
    assert {split for split, _ in late("sparks")} == {"slow"}
    assert late("planned") == late("generated") == []


def test_a_mark_moves_the_watermark_in_steps_and_never_beyond_the_rows():
    said = [step.generated for step in steps()]
    assert sorted({at for at in said if at is not None}) == [-2, 3, 8, 13]
    assert said[0] is None
