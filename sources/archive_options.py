"""The options for an archive of topics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, model_validator
from typing_extensions import Self

from tidegate.readers.archive.layout import ArchiveLayout
from tidegate.readers.kafka.config import KafkaConnectionConfig
from tidegate.readers.places.place import Place, check_location
from tidegate.sources.options import option_names


class ArchiveOptions(BaseModel):
    """A second place of the topics' records.

    archive: an archive of the topics: a folder that all executors share, or ``s3://bucket/prefix``.  Committed records
        are read there and in Kafka, and no others.
    archive_preferred: whether records that are in both places are read from the archive.
    """

    archive: Annotated[str, AfterValidator(check_location)] | None = None
    archive_preferred: bool = True

    @model_validator(mode="after")
    def _consistent_archive(self) -> Self:
        names = {name: option for name, option in option_names(type(self)).items() if name.startswith("archive_")}
        for name in names.keys() & self.model_fields_set if self.archive is None else ():
            raise ValueError(f"{names[name]} is set, which needs archive")
        _ = self.archived
        return self

    @property
    def archived(self) -> ArchiveLayout | None:
        """The archive."""
        if self.archive is None:
            return None
        # Most queries have no archive, and need no Parquet.
        from tidegate.readers.archive.parquet import OwnLayout

        return OwnLayout(Place(self.archive))

    def of_archived(self, config: KafkaConnectionConfig, given: Mapping[str, Any]) -> KafkaConnectionConfig:
        """Return the configuration that shows of Kafka what an archive holds: committed records."""
        if self.archive is None:
            return config
        if "isolation.level" in given and config.isolation_level != "read_committed":
            raise ValueError(
                f"kafka.isolation.level is {config.isolation_level!r}, but an archive holds only committed records"
            )
        return replace(config, isolation_level="read_committed")
