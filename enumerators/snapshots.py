"""Snapshots of enumerators as JSON in a checkpoint: written without what is unset, and checked once and as a whole."""

from __future__ import annotations

import json
from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, TypeVar

from pydantic import TypeAdapter, ValidationError

from tidegate.errors import CheckpointError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from tidegate.enumerators.contract import Json


Snapshot = TypeVar("Snapshot", bound="DataclassInstance")


def noted(snapshot: DataclassInstance) -> Json:
    """Return the fields that differ from their defaults; the names of the fields are the keys."""
    values = ((part, getattr(snapshot, part.name)) for part in fields(snapshot))
    return {
        part.name: value
        for part, value in values
        if value != (part.default if part.default_factory is MISSING else part.default_factory())
    }


def checked(state: Json, shape: type[Snapshot]) -> Snapshot:
    """Return the dataclass whose ``noted`` is the state.

    Raises CheckpointError, one sentence, when something is missing or of another type.
    """
    try:
        return TypeAdapter(shape).validate_json(json.dumps(state), strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = ".".join(map(str, first["loc"]))
        raise CheckpointError(
            f"the checkpoint is damaged, or of another version of tidegate: {name!r} of its enumerator is not as it "
            f"was written ({first['msg']}); restore it, or start with a new checkpoint"
        ) from None
