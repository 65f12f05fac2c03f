"""Source connectors for PySpark that read splits in event-time order.

    import tidegate

    tidegate.register(spark)
    df = spark.readStream.format("tidegate_kafka").option(...).load()

See ``KafkaSource`` and ``S3Source`` for the options, and ``docs/reference/guarantees.md`` for the guarantees.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate.version import __version__ as __version__

if not Path(__file__).is_file():
    raise ImportError(
        f"tidegate cannot run from an archive, as --py-files and addPyFile send it: {Path(__file__).parents[1]}; its "
        "loops are compiled beside its files, and its dependencies have compiled parts. Install it on the driver and "
        "the executors, or ship a packed environment (docs/deploy.md)"
    )

if TYPE_CHECKING:
    from tidegate.alignment.strategy import WatermarkStrategy
    from tidegate.enumerators.planning.source_progress import SourceProgress
    from tidegate.errors import (
        BadRecordError,
        CheckpointError,
        ConnectorError,
        ContractError,
        CorruptDataError,
        DataLossError,
        DeadlineError,
        InstallationError,
        LateDataError,
        ObjectGoneError,
        OptionError,
        ServerError,
        TidegateError,
    )
    from tidegate.jobs.account.account import Account
    from tidegate.jobs.account.of_progress import account
    from tidegate.jobs.archive.run import archive
    from tidegate.jobs.pages.query import report
    from tidegate.jobs.preview.preview import Preview, preview
    from tidegate.sources.columns import from_avro, from_protobuf, with_source_watermark
    from tidegate.sources.kafka.source import KafkaSource
    from tidegate.sources.progress.listener import on_progress
    from tidegate.sources.progress.query import progress
    from tidegate.sources.s3.source import S3Source
    from tidegate.sources.session import register, session_conf
    from tidegate.sources.source import Source
    from tidegate.windows.spark.builder import WindowedStream, windowed
    from tidegate.windows.spark.operating import split_outputs

__all__ = [
    "Account",
    "BadRecordError",
    "CheckpointError",
    "ConnectorError",
    "ContractError",
    "CorruptDataError",
    "DataLossError",
    "DeadlineError",
    "InstallationError",
    "KafkaSource",
    "LateDataError",
    "ObjectGoneError",
    "OptionError",
    "Preview",
    "S3Source",
    "ServerError",
    "Source",
    "SourceProgress",
    "TidegateError",
    "WatermarkStrategy",
    "WindowedStream",
    "account",
    "archive",
    "from_avro",
    "from_protobuf",
    "on_progress",
    "preview",
    "progress",
    "register",
    "report",
    "session_conf",
    "split_outputs",
    "windowed",
    "with_source_watermark",
]

_HOMES = {
    "Account": "tidegate.jobs.account.account",
    "KafkaSource": "tidegate.sources.kafka.source",
    "Preview": "tidegate.jobs.preview.preview",
    "S3Source": "tidegate.sources.s3.source",
    "Source": "tidegate.sources.source",
    "SourceProgress": "tidegate.enumerators.planning.source_progress",
    "WatermarkStrategy": "tidegate.alignment.strategy",
    "WindowedStream": "tidegate.windows.spark.builder",
    "account": "tidegate.jobs.account.of_progress",
    "archive": "tidegate.jobs.archive.run",
    "from_avro": "tidegate.sources.columns",
    "from_protobuf": "tidegate.sources.columns",
    "on_progress": "tidegate.sources.progress.listener",
    "preview": "tidegate.jobs.preview.preview",
    "progress": "tidegate.sources.progress.query",
    "register": "tidegate.sources.session",
    "report": "tidegate.jobs.pages.query",
    "session_conf": "tidegate.sources.session",
    "split_outputs": "tidegate.windows.spark.operating",
    "windowed": "tidegate.windows.spark.builder",
    "with_source_watermark": "tidegate.sources.columns",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used (PEP 562): the command line starts without PySpark."""
    if name not in __all__:
        raise AttributeError(f"module 'tidegate' has no attribute {name!r}")
    from tidegate.errors import needing

    with needing("spark", f"tidegate.{name}"):
        value = getattr(import_module(_HOMES.get(name, "tidegate.errors")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
