"""Recognizes the offsets of Spark's built-in Kafka source, which hold the next offset of each partition.

{"orders": {"0": 23, "1": 7}}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

BuiltInOffset: TypeAlias = Mapping[str, Mapping[int, int]]
"""By topic and partition."""


def built_in_offset(value: Any) -> BuiltInOffset | None:
    """Return the offset that JSON holds; None: it is not an offset of the built-in source."""
    if not isinstance(value, dict) or not value:
        return None
    offset: dict[str, dict[int, int]] = {}
    for topic, partitions in value.items():
        if not isinstance(partitions, dict) or not partitions:
            return None
        if not all(number.isdecimal() and type(at) is int and at >= 0 for number, at in partitions.items()):
            return None
        offset[topic] = {int(number): at for number, at in sorted(partitions.items(), key=lambda item: int(item[0]))}
    return dict(sorted(offset.items()))
