"""Checks snapshots from a checkpoint, once and as a whole."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter, ValidationError

from tidegate.enumerators.contract import Json
from tidegate.errors import CheckpointError

__all__ = ["checked"]


def checked(state: Json, shape: TypeAdapter[Any]) -> Json:
    """Return an enumerator's snapshot unchanged, including unknown keys.

    shape: the types of the known keys, such as a TypedDict.

    Raises CheckpointError, one sentence, when something is missing or of another type.
    """
    try:
        shape.validate_python(state, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = ".".join(map(str, first["loc"]))
        raise CheckpointError(
            f"the checkpoint is damaged, or of another version of tidegate: {name!r} of its enumerator is not as it "
            f"was written ({first['msg']}); restore it, or start with a new checkpoint"
        ) from None
    return state
