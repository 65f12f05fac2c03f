"""Snapshots of enumerators as JSON in a checkpoint: written without what is unset, and checked once and as a whole."""

from __future__ import annotations

import json
from dataclasses import MISSING, dataclass, fields
from typing import TYPE_CHECKING

from pydantic import TypeAdapter, ValidationError
from typing_extensions import Self

from tidegate.errors import CheckpointError

if TYPE_CHECKING:
    from tidegate.enumerators.contract import Json


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The snapshot of an enumerator: a dataclass that alone knows the keys of its JSON, which are its fields."""

    def to_json(self) -> Json:
        """Return the fields that differ from their defaults."""
        values = ((part, getattr(self, part.name)) for part in fields(self))
        return {
            part.name: value
            for part, value in values
            if value != (part.default if part.default_factory is MISSING else part.default_factory())
        }

    @classmethod
    def from_json(cls, state: Json | None) -> Self:
        """Read what ``to_json`` returned.

        Raises CheckpointError, one sentence, when something is missing, unknown or of another type.
        """
        try:
            return TypeAdapter(cls).validate_json(json.dumps(state or {}), strict=True)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            name = ".".join(map(str, first["loc"]))
            raise CheckpointError(
                f"the checkpoint is damaged, or of another version of tidegate: {name!r} of its enumerator is not as "
                f"it was written ({first['msg']}); restore it, or start with a new checkpoint"
            ) from None
