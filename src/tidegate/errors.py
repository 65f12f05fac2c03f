"""Every error that tidegate raises on purpose, split by whose fault it is.

    TidegateError
    ├── OptionError           the caller: an option is unknown, malformed or contradictory
    ├── FunctionError         the caller: a function of windows raised
    ├── InstallationError     the caller: a Python of the cluster lacks tidegate, or has another version
    ├── CheckpointError       the caller: a checkpoint of another source, of other windows or of a newer version
    ├── DataLossError         the data: planned records are gone
    │   ├── PositionGoneError     a position no longer lies in its log
    │   └── ObjectGoneError       an object was deleted or overwritten before it was read
    ├── LateDataError         the data: records are older than the watermark, and that is not allowed
    ├── CorruptDataError      the data: what was read cannot be what was written
    ├── ConnectorError        the other side: it refused, or did not answer before the deadline
    │   ├── DeadlineError
    │   └── UnavailableError      a split has become unavailable
    ├── ContractError         a connector broke a rule of its contract
    └── ServerError           a development server could not be resolved or started

Errors of other libraries are mapped at the boundary with ``raise ... from``.  A message is one
sentence that names the option or the split, the value, what is allowed and, for a misspelling,
the nearest valid name.  It never holds a secret.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = [
    "CheckpointError",
    "ConnectorError",
    "ContractError",
    "CorruptDataError",
    "DataLossError",
    "DeadlineError",
    "FunctionError",
    "InstallationError",
    "LateDataError",
    "ObjectGoneError",
    "OptionError",
    "PositionGoneError",
    "ServerError",
    "TidegateError",
    "UnavailableError",
    "did_you_mean",
]


class TidegateError(Exception):
    """Base of all errors that tidegate raises on purpose."""


class OptionError(TidegateError, ValueError):
    """An option is unknown, malformed or contradicts another one."""


class FunctionError(TidegateError):
    """A function that was given to windows raised; its error is the cause of this one."""


class InstallationError(TidegateError, ImportError):
    """A Python of the cluster cannot be started, lacks tidegate, or has another version of it."""


class CheckpointError(TidegateError):
    """A checkpoint is from another source, from other windows, from a newer version, or broken."""


class DataLossError(TidegateError):
    """Records between a position and the data that is still there are gone (``failOnDataLoss``)."""


class PositionGoneError(DataLossError):
    """A position that was asked about is outside its log by now: ask for the extents anew and plan again."""


class ObjectGoneError(DataLossError):
    """An object was deleted, or overwritten by another version, after it was discovered.

    overwritten: another version of it is there.
    """

    def __init__(self, message: str, *, overwritten: bool = False) -> None:
        super().__init__(message)
        self.overwritten = overwritten


class LateDataError(TidegateError):
    """A split was found whose records are older than the watermark (``lateSplits`` is ``fail``)."""


class CorruptDataError(TidegateError):
    """A checksum or a length does not fit: what was read is not what was written."""


class ConnectorError(TidegateError):
    """The system that is read from refused a request."""


class DeadlineError(ConnectorError):
    """The system that is read from did not answer before the deadline, retries included."""


class UnavailableError(ConnectorError):
    """A split that was asked about cannot be reached by now: ask for the extents anew and plan again."""


class ContractError(TidegateError):
    """A connector returned what its contract forbids."""


class ServerError(TidegateError):
    """A development server could not be resolved, started or stopped."""


_SHORT = 3  # fewer letters are a part of any name


def did_you_mean(name: str, valid: Iterable[str]) -> str:
    """Return "; did you mean 'x'?" for the valid name nearest to ``name``, or nothing."""
    by_folded = {option.casefold(): option for option in valid}
    nearest = difflib.get_close_matches(name.casefold(), by_folded, n=1)
    if not nearest and len(name) > _SHORT:
        nearest = [option for option in by_folded if name.casefold() in option]
    return f"; did you mean {by_folded[nearest[0]]!r}?" if nearest else ""
