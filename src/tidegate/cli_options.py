"""Arguments and options that commands share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer


def an_option(value: str, meaning: str, *names: str, shown: str | bool = True, least: int | None = None) -> Any:
    """Return an option.

    value: what the help shows for its value.
    names: its names; default: that of the parameter.
    shown: what the help shows as its default; True: the default itself.
    least: the least number.
    """
    return typer.Option(*names, metavar=value, help=meaning, show_default=shown, min=least)


def an_argument(value: str, meaning: str, *, shown: str | bool = True) -> Any:
    """Return an argument; the parameters are those of an option."""
    return typer.Argument(metavar=value, help=meaning, show_default=shown)


def a_port(meaning: str) -> Any:
    """Return the option of a port."""
    return typer.Option(metavar="PORT", min=1, max=65_535, show_default="any free one", help=meaning)


def kafka_options(
    servers: str | None, topics: Sequence[str] | None, properties: Sequence[str] | None, file: Path | None
) -> dict[str, Any]:
    """Return the options for Kafka by their names; None: not given."""
    return {"--bootstrap-servers": servers, "--topic": topics, "--kafka": properties, "--kafka-properties": file}


AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON, with times in milliseconds since 1970.")]
Checkpoint: TypeAlias = Annotated[
    str, an_argument("CHECKPOINT", "The checkpointLocation: a folder, or s3://bucket/prefix.")
]
GivenServers: TypeAlias = Annotated[str | None, an_option("HOST:PORT", "Servers, separated by commas.", shown=False)]
GivenTopics: TypeAlias = Annotated[list[str] | None, an_option("NAME", "A topic; may be repeated.")]
KafkaProperties: TypeAlias = Annotated[
    list[str] | None,
    an_option(
        "KEY=VALUE",
        "A property of the Kafka client; may be repeated. Other users of this machine can see it, so keep secrets in a "
        "file.",
    ),
]
KafkaFile: TypeAlias = Annotated[
    Path | None,
    an_option(
        "FILE",
        "A properties file of the Kafka client. Properties of --kafka take precedence.",
        shown=False,
    ),
]
Master: TypeAlias = Annotated[str, an_option("URL", "The master of Spark.")]
ObjectsPath: TypeAlias = Annotated[str | None, an_option("s3://BUCKET/PREFIX", "Objects to read.", shown=False)]
Servers: TypeAlias = Annotated[str, an_option("HOST:PORT", "Servers, separated by commas.")]
SourceOptions: TypeAlias = Annotated[
    list[str] | None,
    an_option(
        "NAME=VALUE",
        "An option of the source, such as eventTime=column:at; may be repeated. Other users of this machine can see "
        "it, so keep secrets where boto3 finds them.",
    ),
]
Topics: TypeAlias = Annotated[list[str], an_option("NAME", "A topic; may be repeated.")]
