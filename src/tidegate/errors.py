"""Every error that tidegate raises on purpose, split by whose fault it is.

The caller's are OptionError, FunctionError, InstallationError and CheckpointError.  Those of the data are
DataLossError, LateDataError, CorruptDataError and BadRecordError.  ConnectorError and its kinds are of the other
system, ContractError is of a connector, and ServerError is of a server for development.

Errors of other libraries are mapped at the boundary with ``raise ... from``.  A message is one
sentence that names the option or the split, the value, the allowed values and, for a misspelling,
the nearest valid name.  It never holds a secret.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

_OF_EXTRAS = {
    "avro": {"fastavro"},
    "delta": {"deltalake"},
    "iceberg": {"pyiceberg"},
    "registry": {"fastavro", "google", "grpc_tools"},
    "spark": {"pandas", "py4j", "pyspark"},
    "where": {"sqlglot"},
    "windows": {"google", "grpc"},
}
"""The packages that each extra installs, as they are imported."""


class TidegateError(Exception):
    """Base of all errors that tidegate raises on purpose."""


class OptionError(TidegateError, ValueError):
    """An option is unknown, malformed or contradicts another one."""


class StrategyError(OptionError):
    """Fields of a WatermarkStrategy are malformed or contradict each other.

    fields: their names.
    must: the requirement on a single wrong field, such as "must be zero or more".
    """

    def __init__(self, message: str, *fields: str, must: str = "") -> None:
        super().__init__(f"{message}, but it {must}" if must else message)
        self.fields, self.must = fields, must


class NoMessageError(OptionError):
    """A Protobuf schema has no message of the wanted name."""


class FunctionError(TidegateError):
    """A function of a window raised an error, which is the cause of this one."""


class InstallationError(TidegateError, ImportError):
    """A Python of the cluster cannot be started, lacks tidegate or an extra of it, or has another version."""


def with_extra(extra: str) -> str:
    """Return what to install for the packages of an extra, as the end of a sentence."""
    return f"tidegate with its extra {extra!r}, in a checkout by pip install '.[{extra}]'"


@contextmanager
def needing(extra: str, what: str) -> Iterator[None]:
    """Raise InstallationError, in one sentence, for an import of a package that an extra would have installed.

    what: the part of tidegate that needs it.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in _OF_EXTRAS[extra]:
            raise
        raise InstallationError(
            f"{what} needs the package {package}, which is missing: install {with_extra(extra)}"
        ) from None


class CheckpointError(TidegateError):
    """A checkpoint is from another source, other windows or another version of tidegate, or it is broken."""


class DataLossError(TidegateError):
    """Records between a position and the data that is still there are gone (``failOnDataLoss``)."""


class PositionGoneError(DataLossError):
    """A position is no longer in its log: request the extents anew, and plan again."""


class ObjectGoneError(DataLossError):
    """An object was deleted, or overwritten by another version, after it was discovered.

    overwritten: another version of it exists.
    """

    def __init__(self, message: str, *, overwritten: bool = False) -> None:
        super().__init__(message)
        self.overwritten = overwritten


class LateDataError(TidegateError):
    """A split has records older than the watermark, and ``lateSplits`` is ``fail``."""


class CorruptDataError(TidegateError):
    """Bytes are not those that were written, or not of their format; or the options refuse the event time of a row."""


class BadRecordError(TidegateError):
    """A record cannot be read, or a value does not fit its column, and the policy for bad records ends the query."""


class ConnectorError(TidegateError):
    """The system that is read refused a request."""


class DeadlineError(ConnectorError):
    """The system that is read did not answer before the deadline, retries included."""


class TransientError(ConnectorError):
    """The other side failed in a way that may pass; the owner of the Deadline tries again."""


class RefusedError(ConnectorError):
    """A broker refused us for good: the same login would be refused again, or be locked out."""


class BrokerTooOldError(ConnectorError):
    """A broker supports no version of a request with the fields that we need."""


class UnknownPartitionError(ConnectorError):
    """The cluster has no such partition, and has had enough time to learn about it."""


class OutOfMemoryError(ConnectorError):
    """Data takes more memory than the process may have.  The data may be sound, so it is never skipped."""

    def __init__(
        self,
        message: str = "takes more memory to decode than this process may have; raise spark.executor.pyspark.memory if "
        "it is set, or the limit of the process",
    ) -> None:
        super().__init__(message)


class UnavailableError(ConnectorError):
    """A split can no longer be reached: request the extents anew, and plan again."""


class ContractError(TidegateError):
    """A connector, or a watermark generator, did what its contract forbids, such as raising an error of its own."""


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


def counted(number: float, noun: str) -> str:
    """Return a whole number with its noun, in the plural unless the number is 1."""
    shown = f"{number:,}" if isinstance(number, int) else f"{number:,.0f}"
    if shown == "1":
        return f"1 {noun}"
    return f"{shown} {noun}{'es' if noun.endswith('ch') else 's'}"
