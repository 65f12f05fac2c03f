"""Keeps some options of a query from run to run: waiting objects were found and planned by them."""

from __future__ import annotations

import json
from collections.abc import Mapping

from tidegate.enumerators.s3.state.ledger import Ledger
from tidegate.errors import CheckpointError

__all__ = ["KEPT_OPTIONS", "keep_options"]

KEPT_OPTIONS = "options"
"""The name of the file in a query's folder."""

_PATH = "path"


def keep_options(ledger: Ledger, options: Mapping[str, object]) -> None:
    """Store the options of a query's first run, and hold later runs to them.

    options: JSON values by name; no value is secret.  ``path`` may become a parent, because the objects that were
        found are also below it.

    Raises CheckpointError, which names the option and both values, for another value than the stored one.
    """
    note = ledger.noted(KEPT_OPTIONS)
    before = {} if note is None else json.loads(note)
    for name, value in options.items():
        noted = before.get(name, value)
        if noted != value and not (name == _PATH and str(noted).startswith(str(value))):
            raise CheckpointError(
                f"{name} {_told('is', value)}, but {_told('was', noted)} in the runs before, by which the objects that "
                "wait were found and planned; set it back, or begin with a new checkpoint and a new stateLocation"
            )
    if before != options:
        ledger.note(KEPT_OPTIONS, json.dumps(options).encode())


def _told(verb: str, value: object) -> str:
    return f"{verb} not set" if value is None else f"{verb} {value!r}"
