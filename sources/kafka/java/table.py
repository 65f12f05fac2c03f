"""The ``kafka.*`` properties: those that are understood, those without effect here, and those that are refused."""

from __future__ import annotations

from collections.abc import Callable
from configparser import ConfigParser
from pathlib import Path
from typing import Any, NamedTuple

from tidegate.readers.decompression import parse_most_bytes
from tidegate.sources.kafka.java import values
from tidegate.sources.kafka.java.login import callback_name


class Property(NamedTuple):
    """A property of the connection or of reading.

    convert: returns the value of a text, None if it has no effect; raises ValueError, which says what is expected.
    kind, default, meaning: texts for the documentation, in Markdown.
    field: the field of KafkaConnectionConfig for a property of reading.  None: the connection takes the property
        under its name, with underscores for dots.
    """

    name: str
    convert: Callable[[str], Any]
    kind: str
    default: str
    meaning: str
    field: str | None = None

    @property
    def unit(self) -> str:
        """The unit of a number, by its name; empty without one."""
        return {"ms": "ms", "bytes": "bytes"}.get(self.name.rpartition(".")[2], "")


def _read(name: str) -> ConfigParser:
    read = ConfigParser(interpolation=None, delimiters=("=",), allow_no_value=True)
    read.optionxform = str  # type: ignore[assignment,method-assign] # names keep their case
    read.read_string(Path(__file__).with_name(name).read_text(encoding="utf-8"))
    return read


_VALUES = {**vars(values), "callback_name": callback_name, "most_bytes": parse_most_bytes, "text": str}
_WITHOUT_EFFECT = _read("without_effect.ini")

PROPERTIES = {
    name: Property(
        name,
        values.one_of(*said["choices"].split()) if "choices" in said else _VALUES[said.get("value", "text")],
        said["type"],
        said["default"].replace("\n", " "),
        said["meaning"].replace("\n", " "),
        said.get("field"),
    )
    for name, said in _read("properties.ini").items()
    if name != "DEFAULT"
}
INSTEAD = dict(_WITHOUT_EFFECT.items("instead"))
"""Properties that must not be ignored, with their replacements; a final dot means all with that prefix."""

_REASONS = {name: why for why in _WITHOUT_EFFECT.sections() if why != "instead" for name in _WITHOUT_EFFECT[why]}
NO_GROUP = _REASONS["group.id"]


def why_without_effect(name: str) -> str | None:
    """Return the reason why a property has no effect; None: it has an effect, or is unknown."""
    return next((why for key, why in _REASONS.items() if is_of(name, key)), None)


def is_of(name: str, key: str) -> bool:
    """Return whether a key of the tables is a property's name, or its prefix with a final dot."""
    return name == key or (key[-1] == "." and name.startswith(key))
