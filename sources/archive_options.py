"""The options for an archive of topics."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, ValidationError, model_validator
from typing_extensions import Self

from tidegate.enumerators.kafka.offsets import ByTimestamp, OffsetsSpec
from tidegate.errors import OptionError, did_you_mean
from tidegate.readers.archive.layout import COLUMNS, ArchiveLayout
from tidegate.readers.kafka.config import KafkaConnectionConfig
from tidegate.readers.places.place import Place, check_location
from tidegate.readers.s3.config import S3ConnectionConfig
from tidegate.sources.options import lower_case, option_names, sentence
from tidegate.sources.s3.connection import S3ConnectionOptions

_ALWAYS = ("topic", "partition", "offset")
_EXAMPLE = '{"offset": "kafka_offset", "key": null}'


def _columns(value: Any) -> Any:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except json.JSONDecodeError as error:
            raise ValueError(f"malformed JSON at character {error.pos}: {error.msg}") from None
    if not isinstance(value, Mapping) or not all(
        named is None or (named and isinstance(named, str)) for named in value.values()
    ):
        raise ValueError(f"expected names of columns, such as {_EXAMPLE}")
    for column, named in value.items():
        if column not in COLUMNS:
            raise ValueError(f"Kafka has no column {column!r}{did_you_mean(str(column), COLUMNS)}")
        if named is None and column in _ALWAYS:
            raise ValueError(f"no record is known without its {column}, so it cannot be null")
    return value


class ArchiveOptions(BaseModel):
    """A second place of the topics' records.

    archive: an archive of the topics: a folder that all executors share, or ``s3://bucket/prefix``.  Committed records
        are read there and in Kafka, and no others.
    archive_layout: how records lie in the archive: ``tidegate``, as ``tidegate archive`` writes them; ``parquet``, with
        Kafka's columns in Parquet of others; ``connect``, as the S3 sink of Kafka Connect writes them.
    archive_columns: the columns of the layout ``parquet`` that have other names than Kafka's, such as
        ``{"offset": "kafka_offset", "key": null}``; null: it is not kept.
    archive_preferred: whether records that are in both places are read from the archive.
    archive_endpoint: the URL of the archive's bucket, if it is not that of AWS.
    archive_region: the region of the bucket; default: the one that boto3 finds.
    archive_access_key, archive_secret_key, archive_session_token: credentials for the bucket, never shown.  Default:
        those that boto3 finds on each machine.
    archive_anonymous: sign no request to the bucket.
    archive_role_arn: a role to assume for the bucket.
    """

    archive: Annotated[str, AfterValidator(check_location)] | None = None
    archive_layout: Annotated[
        Literal["tidegate", "parquet", "connect"],
        BeforeValidator(lower_case),
        Field(serialization_alias="archive.layout"),
    ] = "tidegate"
    archive_columns: Annotated[
        dict[str, str | None] | None, BeforeValidator(_columns), Field(serialization_alias="archive.columns")
    ] = None
    archive_preferred: bool = True
    archive_endpoint: Annotated[str | None, Field(serialization_alias="archive.endpoint")] = None
    archive_region: Annotated[str | None, Field(serialization_alias="archive.region")] = None
    archive_access_key: Annotated[str | None, Field(repr=False, serialization_alias="archive.accessKey")] = None
    archive_secret_key: Annotated[str | None, Field(repr=False, serialization_alias="archive.secretKey")] = None
    archive_session_token: Annotated[str | None, Field(repr=False, serialization_alias="archive.sessionToken")] = None
    archive_anonymous: Annotated[bool, Field(serialization_alias="archive.anonymous")] = False
    archive_role_arn: Annotated[str | None, Field(serialization_alias="archive.roleArn")] = None

    @model_validator(mode="after")
    def _consistent_archive(self) -> Self:
        names = {name: option for name, option in option_names(type(self)).items() if name.startswith("archive_")}
        for name in names.keys() & self.model_fields_set if self.archive is None else ():
            raise ValueError(f"{names[name]} is set, which needs archive")
        if self.archive_columns is not None and self.archive_layout != "parquet":
            raise ValueError(
                f"archive.columns is set, which needs archive.layout 'parquet', not {self.archive_layout!r}"
            )
        _ = self.archived
        return self

    @property
    def archived(self) -> ArchiveLayout | None:
        """The archive."""
        if self.archive is None:
            return None
        # Most queries have no archive, and need no Parquet.
        from tidegate.readers.archive.connect import ConnectLayout
        from tidegate.readers.archive.mapped import MappedLayout
        from tidegate.readers.archive.own import OwnLayout

        place = Place(self.archive, self._bucket)
        if self.archive_layout == "parquet":
            return MappedLayout(place, self.archive_columns or {})
        return ConnectLayout(place) if self.archive_layout == "connect" else OwnLayout(place)

    def check_archived_times(self, event_time: Any, points: Sequence[OffsetsSpec]) -> None:
        """Raise ValueError if timestamps are needed that the archive does not keep.  points: the start and the end."""
        if self.archived is None or self.archived.keeps_timestamps:
            return
        lacks = "archive.columns says that timestamp is not kept"
        if self.archive_columns is None:
            lacks = f"archive.layout is {self.archive_layout!r}, which keeps no timestamps"
        if event_time == "timestamp":
            raise ValueError(f"{lacks}, so eventTime cannot be timestamp; take it from the value")
        for point in points:
            if any(isinstance(at, ByTimestamp) for at in (point.default, *point.by_partition.values())):
                raise ValueError(f"{lacks}, so {point.option} cannot reach into it; set offsets")

    def of_archived(self, config: KafkaConnectionConfig, given: Mapping[str, Any]) -> KafkaConnectionConfig:
        """Return the configuration that shows of Kafka what an archive holds: committed records."""
        if self.archive is None:
            return config
        if "isolation.level" in given and config.isolation_level != "read_committed":
            raise ValueError(
                f"kafka.isolation.level is {config.isolation_level!r}, but an archive holds only committed records"
            )
        return replace(config, isolation_level="read_committed")

    @property
    def _bucket(self) -> S3ConnectionConfig:
        names = {name: option_names(type(self))[f"archive_{name}"] for name in S3ConnectionOptions.model_fields}
        try:
            given = S3ConnectionOptions(**{name: getattr(self, f"archive_{name}") for name in names})
            return replace(given.connection, prefix="archive.")
        except ValidationError as error:
            problem = sentence(error, names)
            raise problem if error.errors()[0]["loc"] else OptionError(f"of archive.*, {problem}") from None
