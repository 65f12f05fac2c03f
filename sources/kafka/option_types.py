"""Types of the Kafka source's options with their own checks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, TypeAlias

from pydantic import AfterValidator, BeforeValidator

from tidegate.readers.bad_records.files import check_location
from tidegate.readers.event_time.assigners import assigner_of
from tidegate.readers.event_time.punctuated import marks_of
from tidegate.readers.registry.config import RegistryConfig

__all__ = ["BadRecordsPath", "EventTimeOption", "WatermarkFrom"]

_ANY = RegistryConfig("http://any")  # whether there is a registry is checked with the other options


def _event_time(value: Any) -> Any:
    if isinstance(value, str):
        assigner_of(value, None, _ANY)
    elif not callable(value):
        raise ValueError("expected timestamp, header:NAME, json:/pointer, avro:/field, protobuf:/field, or a function")  # noqa: TRY004
    return value


def _watermark_from(value: str) -> str:
    marks_of(value, _ANY)
    return value


EventTimeOption: TypeAlias = Annotated[str | Callable[..., Any], BeforeValidator(_event_time)]
BadRecordsPath: TypeAlias = Annotated[str, AfterValidator(check_location)]
WatermarkFrom: TypeAlias = Annotated[str, AfterValidator(_watermark_from)]
