"""The options of a query that stay from run to run: what waits to be read was found and planned by them."""

from __future__ import annotations

import json
from collections.abc import Mapping

from tidegate.enumerators.s3.state.ledger import Ledger
from tidegate.errors import CheckpointError

__all__ = ["KEPT_OPTIONS", "keep_options"]

KEPT_OPTIONS = "options"
"""The name of the note in a query's folder."""

_PATH = "path"


def keep_options(ledger: Ledger, given: Mapping[str, object]) -> None:
    """Note the options of a query's first run, and hold later ones to them.

    given: values by name, as JSON has them, and nothing secret.  Among them ``path`` may become one further up: what
        was found lies below it, too.

    Raises CheckpointError, which names the option and both values, for another one than was noted.
    """
    found = ledger.noted(KEPT_OPTIONS)
    before = {} if found is None else json.loads(found)
    for name, value in given.items():
        known = before.get(name, value)
        if known != value and not (name == _PATH and str(known).startswith(str(value))):
            raise CheckpointError(
                f"{name} {_told('is', value)}, but {_told('was', known)} in the runs before, by which the objects that "
                "wait were found and planned; set it back, or begin with a new checkpoint and a new stateLocation"
            )
    if before != given:
        ledger.note(KEPT_OPTIONS, json.dumps(given).encode())


def _told(verb: str, value: object) -> str:
    return f"{verb} not set" if value is None else f"{verb} {value!r}"
