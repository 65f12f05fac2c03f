"""Makes sources known to a Spark session."""

from __future__ import annotations

import logging
from importlib.metadata import EntryPoint, entry_points

from pyspark.sql import SparkSession

from tidegate.errors import InstallationError, OptionError
from tidegate.sources.bridge import data_source_class
from tidegate.sources.contract import SourceContract
from tidegate.sources.session.settings import redact_secrets
from tidegate.sources.session.single_source import prepare

_LOG = logging.getLogger("tidegate")
_CONNECTORS = "tidegate.connectors"


def register(spark: SparkSession, *others: type[SourceContract]) -> None:
    """Register the connectors of all installed packages with the session, such as ``tidegate_kafka``.

    A package names its connectors by entry points of the group ``tidegate.connectors``.  One that cannot be imported or
    has no name is left out, with a warning.  Of two connectors with one name the last counts, also with a warning.

    others: connectors of your own that no package installs.

    Raises OptionError for a value that is no class of a source, and InstallationError if no connector is installed.

    Call it once per session.  On a local master the Python workers then also run this interpreter.  Plans of the
    session hide the values of secret options (``spark.sql.redaction.options.regex``).
    """
    for source in others:
        _check_class(source)
    driver = prepare(spark)
    redact_secrets(spark)
    connectors: dict[str, type[SourceContract]] = {}
    for name, source in [*_installed(), *((source.data_source_name(), source) for source in others)]:
        replaced = connectors.get(name.lower(), source)  # Spark ignores case
        if replaced is not source:
            _LOG.warning("two connectors are called %r: %s is used, and not %s", name, _path(source), _path(replaced))
        connectors[name.lower()] = source
    for source in connectors.values():
        spark.dataSource.register(data_source_class(source.data_source_name(), source.from_options, driver))


def _installed() -> list[tuple[str, type[SourceContract]]]:
    """Return the connectors of installed packages, with the names of their data sources."""
    loaded = map(_loaded, sorted(entry_points(group=_CONNECTORS)))
    found = [connector for connector in loaded if connector is not None]
    if not found:
        raise InstallationError(
            "no connector is installed, not even those of tidegate: install tidegate with pip, because a folder on the "
            "path does not name its connectors"
        )
    return found


def _loaded(point: EntryPoint) -> tuple[str, type[SourceContract]] | None:
    try:
        source = point.load()
        _check_class(source)
        return str(source.data_source_name()), source
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a broken package must not take the others with it
        _LOG.warning(
            "the connector %s of %s is left out: %s", point.name, point.value, str(error) or type(error).__name__
        )
        return None


def _path(source: type[SourceContract]) -> str:
    return f"{source.__module__}.{source.__qualname__}"


def _check_class(source: object) -> None:
    if isinstance(source, SourceContract):
        name = type(source).__name__
        raise OptionError(f"register() takes the class {name}; a source of it needs no name: use its read_stream()")
    if not (isinstance(source, type) and issubclass(source, SourceContract)):
        raise OptionError(f"register() takes classes of sources, and {source!r} is none")
