"""A file of ranges, some of them held, has the bytes of its object."""

from __future__ import annotations

import io

from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.readers.objects.file import ObjectFile


@settings(max_examples=200)
@given(st.binary(max_size=60), st.integers(1, 9), st.data())
def test_a_file_of_held_and_other_ranges_is_the_object(content: bytes, part: int, data: st.DataObject) -> None:
    size = len(content)
    spans = st.tuples(st.integers(0, size), st.integers(0, size)).map(lambda span: tuple(sorted(span)))
    oracle = io.BytesIO(content)
    with ObjectFile(size, lambda start, end: content[start:end], part) as file:
        for _ in range(data.draw(st.integers(0, 3))):
            file.hold(data.draw(st.lists(spans, max_size=3)))
            for _ in range(data.draw(st.integers(0, 3))):
                position, count = data.draw(st.tuples(st.integers(0, size + 2), st.integers(-1, size + 2)))
                assert file.seek(position) == oracle.seek(position)
                assert file.read(count) == oracle.read(count)
                assert file.tell() == oracle.tell()


def test_a_held_range_is_asked_for_once_in_parts() -> None:
    asked: list[tuple[int, int]] = []

    def fetch(start: int, end: int) -> bytes:
        asked.append((start, end))
        return bytes(range(start, end))

    with ObjectFile(100, fetch, 10) as file:
        file.hold([(5, 25), (40, 45)])
        file.hold([(5, 25), (60, 70)])
        file.seek(5)
        assert file.read(20) == bytes(range(5, 25))
        file.seek(58)
        assert file.read(4) == bytes(range(58, 62))
    asked.sort()
    assert [span for span in asked if span != (40, 45)] == [(5, 15), (15, 25), (58, 60), (60, 70)]
