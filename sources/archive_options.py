"""The options for an archive of topics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, Field, ValidationError, model_validator
from typing_extensions import Self

from tidegate.errors import OptionError
from tidegate.readers.archive.layout import ArchiveLayout
from tidegate.readers.kafka.config import KafkaConnectionConfig
from tidegate.readers.places.place import Place, check_location
from tidegate.readers.s3.config import S3ConnectionConfig
from tidegate.sources.options import option_names, sentence
from tidegate.sources.s3.connection import S3ConnectionOptions


class ArchiveOptions(BaseModel):
    """A second place of the topics' records.

    archive: an archive of the topics: a folder that all executors share, or ``s3://bucket/prefix``.  Committed records
        are read there and in Kafka, and no others.
    archive_preferred: whether records that are in both places are read from the archive.
    archive_endpoint: the URL of the archive's bucket, if it is not that of AWS.
    archive_region: the region of the bucket; default: the one that boto3 finds.
    archive_access_key, archive_secret_key, archive_session_token: credentials for the bucket, never shown.  Default:
        those that boto3 finds on each machine.
    archive_anonymous: sign no request to the bucket.
    archive_role_arn: a role to assume for the bucket.
    """

    archive: Annotated[str, AfterValidator(check_location)] | None = None
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
        _ = self.archived
        return self

    @property
    def archived(self) -> ArchiveLayout | None:
        """The archive."""
        if self.archive is None:
            return None
        # Most queries have no archive, and need no Parquet.
        from tidegate.readers.archive.parquet import OwnLayout

        return OwnLayout(Place(self.archive, self._bucket))

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
