"""The ``kafka.*`` options: names as Kafka's Java client has them, values as our reader takes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tidegate.errors import OptionError, did_you_mean
from tidegate.readers.kafka_config import KafkaConnectionConfig

__all__ = ["connection_config"]


def _boolean(text: str) -> bool:
    if text.lower() not in {"true", "false"}:
        raise ValueError("expected true or false")
    return text.lower() == "true"


def _natural(text: str) -> int:
    number = int(text) if text.strip().isdecimal() else 0
    if number <= 0:
        raise ValueError("expected a whole number above zero")
    return number


def _one_of(*allowed: str) -> Callable[[str], str]:
    def check(text: str) -> str:
        if text not in allowed:
            raise ValueError(f"expected {' or '.join(allowed)}")
        return text

    return check


# How the reader reads: fields of KafkaConnectionConfig.
_READING: dict[str, tuple[str, Callable[[str], Any]]] = {
    "isolation.level": ("isolation_level", _one_of("read_uncommitted", "read_committed")),
    "check.crcs": ("check_crcs", _boolean),
    "fetch.max.bytes": ("fetch_max_bytes", _natural),
    "max.partition.fetch.bytes": ("max_partition_fetch_bytes", _natural),
    "fetch.max.wait.ms": ("fetch_max_wait_ms", _natural),
    "default.api.timeout.ms": ("deadline_s", lambda text: _natural(text) / 1000),
}

# How to connect: kafka-python's own names, but for dots.
_CONNECTING: dict[str, Callable[[str], Any]] = {
    "client.id": str,
    "request.timeout.ms": _natural,
    "security.protocol": _one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    "sasl.mechanism": str,
    "sasl.plain.username": str,
    "sasl.plain.password": str,
    "sasl.kerberos.name": str,
    "sasl.kerberos.service.name": str,
    "sasl.kerberos.domain.name": str,
    "ssl.cafile": str,
    "ssl.certfile": str,
    "ssl.keyfile": str,
    "ssl.password": str,
    "ssl.crlfile": str,
    "ssl.check.hostname": _boolean,
    "proxy.url": str,
}

# What users of the Java client are used to, and what stands for it here.
_OF_JAVA_ONLY = {
    "sasl.jaas.config": "set kafka.sasl.plain.username and kafka.sasl.plain.password",
    "ssl.truststore.location": "set kafka.ssl.cafile to a PEM file",
    "ssl.truststore.password": "set kafka.ssl.cafile to a PEM file",
    "ssl.keystore.location": "set kafka.ssl.certfile and kafka.ssl.keyfile to PEM files",
    "ssl.keystore.password": "set kafka.ssl.certfile and kafka.ssl.keyfile to PEM files",
    "ssl.key.password": "set kafka.ssl.password",
    "ssl.endpoint.identification.algorithm": "set kafka.ssl.check.hostname",
    "group.id": "positions stand in Spark's checkpoint, and no consumer group takes part",
    "enable.auto.commit": "positions stand in Spark's checkpoint",
    "auto.offset.reset": "set startingOffsets",
    "max.poll.records": "set maxOffsetsPerTrigger",
    "key.deserializer": "keys are binary; cast them in Spark",
    "value.deserializer": "values are binary; cast them in Spark",
}


def connection_config(bootstrap_servers: str, properties: Mapping[str, Any]) -> KafkaConnectionConfig:
    """Return how to connect and read.

    properties: by Kafka's names without the prefix ``kafka.``.  Raises OptionError, which never
    shows a value, for the first one that is unknown or malformed.
    """
    reading: dict[str, Any] = {}
    connecting: dict[str, Any] = {}
    for name, value in properties.items():
        if name in _READING:
            field, convert = _READING[name]
            reading[field] = _converted(name, value, convert)
        elif name in _CONNECTING:
            connecting[name.replace(".", "_")] = _converted(name, value, _CONNECTING[name])
        elif name in _OF_JAVA_ONLY:
            raise OptionError(f"the option 'kafka.{name}' is of Kafka's Java client; here, {_OF_JAVA_ONLY[name]}")
        else:
            raise OptionError(
                f"there is no option 'kafka.{name}'{did_you_mean(f'kafka.{name}', [f'kafka.{n}' for n in known()])}"
            )
    return KafkaConnectionConfig(bootstrap_servers, connecting, **reading)


def known() -> list[str]:
    """Return all property names without their prefix."""
    return ["bootstrap.servers", *_READING, *_CONNECTING]


def _converted(name: str, value: Any, convert: Callable[[str], Any]) -> Any:
    try:
        return convert(str(value))
    except ValueError as error:
        raise OptionError(f"the option 'kafka.{name}' is malformed: {error}") from None
