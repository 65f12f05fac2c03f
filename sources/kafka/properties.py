"""The ``kafka.*`` options: under the names of Kafka's Java client, with values for our reader."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from ipaddress import IPv6Address
from typing import Any
from urllib.parse import urlsplit

from tidegate.errors import OptionError, did_you_mean
from tidegate.readers.decompression import parse_most_bytes
from tidegate.readers.kafka.config import KafkaConnectionConfig
from tidegate.readers.kafka.wire.frames import LARGEST_FRAME

__all__ = ["NO_GROUP", "connection_config"]

NO_GROUP = "positions are in Spark's checkpoint, and no consumer group reads"

_LARGEST_PORT = 65_535
_LISTENER = re.compile("^[A-Z0-9_]+://")  # as brokers advertise it; a URL such as http://broker:9092 is no server
_PROXIES = ("http", "socks5", "socks5h")
_LOGIN = re.compile(r"^([A-Za-z0-9_+.-]+://)?.*@", re.DOTALL)
_FRAME_BEYOND_RECORDS = 512  # as librdkafka has it
_PASSWORD_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
# OAUTHBEARER is missing: kafka-python asks an object for its tokens, which no option can name.
_MECHANISMS = (*_PASSWORD_MECHANISMS, "GSSAPI", "AWS_MSK_IAM")


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
            raise ValueError(f"expected {_either(allowed)}{did_you_mean(text, allowed)}")
        return text

    return check


def _either(names: Sequence[str]) -> str:
    return " or ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _proxy_url(text: str) -> str:
    # kafka-python shows the whole address with the password if it cannot read it.
    expected = f"expected {_either(_PROXIES)}, such as socks5://proxy:1080 or socks5://user:password@proxy:1080"
    try:
        url = urlsplit(text)
        host, port = url.hostname, url.port
    except ValueError:
        raise ValueError(expected) from None
    if url.scheme not in _PROXIES or not host or not port:
        raise ValueError(expected)
    return text


# How the reader reads: fields of KafkaConnectionConfig.
_READING: dict[str, tuple[str, Callable[[str], Any]]] = {
    "isolation.level": ("isolation_level", _one_of("read_uncommitted", "read_committed")),
    "check.crcs": ("check_crcs", _boolean),
    "max.decompressed.bytes": ("max_decompressed_bytes", parse_most_bytes),
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
    "sasl.mechanism": _one_of(*_MECHANISMS),
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
    "proxy.url": _proxy_url,
    "receive.message.max.bytes": _natural,
}

# Properties of the Java client, with their replacements.
_OF_JAVA_ONLY = {
    "sasl.jaas.config": "set kafka.sasl.plain.username and kafka.sasl.plain.password",
    "ssl.truststore.location": "set kafka.ssl.cafile to a PEM file",
    "ssl.truststore.password": "set kafka.ssl.cafile to a PEM file",
    "ssl.keystore.location": "set kafka.ssl.certfile and kafka.ssl.keyfile to PEM files",
    "ssl.keystore.password": "set kafka.ssl.certfile and kafka.ssl.keyfile to PEM files",
    "ssl.key.password": "set kafka.ssl.password",
    "ssl.endpoint.identification.algorithm": "set kafka.ssl.check.hostname",
    "group.id": "positions are in Spark's checkpoint, and there is no consumer group",
    "enable.auto.commit": "positions are in Spark's checkpoint",
    "auto.offset.reset": "set startingOffsets",
    "max.poll.records": "set maxOffsetsPerTrigger",
    "key.deserializer": "keys are binary; cast them in Spark",
    "value.deserializer": "values are binary; cast them in Spark",
}


def connection_config(bootstrap_servers: str, properties: Mapping[str, Any]) -> KafkaConnectionConfig:
    """Return the configuration of the connection and of reading.

    bootstrap_servers: ``host:port``, several separated by commas; the default port is 9092.
    properties: by Kafka's names without the prefix ``kafka.``.

    Raises OptionError for the first one that is unknown, malformed or missing; it never shows a value of a property.
    """
    servers = _servers(bootstrap_servers)
    reading: dict[str, Any] = {}
    connecting: dict[str, Any] = {}
    for name, value in properties.items():
        if name in _READING:
            field, convert = _READING[name]
            reading[field] = _converted(name, value, convert)
        elif name in _CONNECTING:
            connecting[name.replace(".", "_")] = _converted(name, value, _CONNECTING[name])
        elif name == "bootstrap.servers":
            raise OptionError("the option 'kafka.bootstrap.servers' is given twice; it is no property of the client")
        elif name in _OF_JAVA_ONLY:
            raise OptionError(f"the option 'kafka.{name}' is of Kafka's Java client; here, {_OF_JAVA_ONLY[name]}")
        else:
            raise OptionError(
                f"there is no option 'kafka.{name}'{did_you_mean(f'kafka.{name}', [f'kafka.{n}' for n in known()])}"
            )
    _check_protocol(connecting)
    _check_login(connecting)
    _check_certificate(connecting)
    config = KafkaConnectionConfig(servers, connecting, **reading)
    if config.fetch_max_bytes + _FRAME_BEYOND_RECORDS > LARGEST_FRAME:
        connecting.setdefault("receive_message_max_bytes", config.fetch_max_bytes + _FRAME_BEYOND_RECORDS)
    return config


def known() -> list[str]:
    """Return all property names without their prefix."""
    return ["bootstrap.servers", *_READING, *_CONNECTING]


def _servers(text: str) -> str:
    """Return the servers as kafka-python reads them, without blanks and the name of a listener before ``://``."""
    servers = [server.strip() for server in text.split(",") if server.strip()]
    wrong = (
        text if not servers else next((server for server in servers if not _is_server(_LISTENER.sub("", server))), None)
    )
    if wrong is not None:
        has_login = "@" in text  # a password may hold a comma: then no part may be shown that is before the last @
        shown = _LOGIN.sub(r"\1", text) if has_login else wrong
        hint = "; a login goes into kafka.sasl.plain.username and kafka.sasl.plain.password" if has_login else ""
        raise OptionError(
            f"the option 'kafka.bootstrap.servers' is {shown!r}: expected host:port, such as "
            f"broker:9092 or [::1]:9092, several separated by commas; the port is a number up to {_LARGEST_PORT}{hint}"
        )
    return ",".join(_LISTENER.sub("", server) for server in servers)


def _is_server(text: str) -> bool:
    match = re.fullmatch(r"(?:\[(?P<address>[^\]]+)\]|(?P<name>[^\s:/@\[\]]+))(?::(?P<port>[0-9]+))?", text)
    if match is None:
        return _is_ipv6(text)
    return (match["name"] is not None or _is_ipv6(match["address"])) and 0 < int(match["port"] or 1) <= _LARGEST_PORT


def _is_ipv6(text: str) -> bool:
    try:
        IPv6Address(text)
    except ValueError:
        return False
    return True


def _check_protocol(connecting: Mapping[str, Any]) -> None:
    """Raise OptionError for an unencrypted connection with options that need an encrypted one."""
    protocol = connecting.get("security_protocol")
    for prefix, is_heeded, expected in (
        ("sasl_", protocol in ("SASL_SSL", "SASL_PLAINTEXT"), "SASL_SSL or SASL_PLAINTEXT"),
        ("ssl_", protocol in ("SSL", "SASL_SSL"), "SSL or SASL_SSL"),
    ):
        option = next((name for name in connecting if name.startswith(prefix)), None)
        if option is not None and not is_heeded:
            state = "missing" if protocol is None else f"{protocol}, which does not use it"
            raise OptionError(
                f"the option 'kafka.{option.replace('_', '.')}' is given, but 'kafka.security.protocol' is {state}: "
                f"expected {expected}"
            )


def _check_certificate(connecting: Mapping[str, Any]) -> None:
    option = next((name for name in ("ssl_keyfile", "ssl_password") if name in connecting), None)
    if option is not None and "ssl_certfile" not in connecting:
        raise OptionError(
            f"the option 'kafka.{option.replace('_', '.')}' is given, but 'kafka.ssl.certfile' is missing: "
            "a key is of use with its certificate only"
        )


def _check_login(connecting: Mapping[str, Any]) -> None:
    """Raise OptionError if a login lacks something; otherwise the first connection would time out."""
    protocol = connecting.get("security_protocol", "PLAINTEXT")
    if not protocol.startswith("SASL_"):
        return
    mechanism = connecting.get("sasl_mechanism")
    if mechanism is None:
        raise OptionError(
            f"the option 'kafka.security.protocol' is {protocol}, but 'kafka.sasl.mechanism' is missing: "
            f"expected {_either(_MECHANISMS)}"
        )
    needed = ("sasl.plain.username", "sasl.plain.password") if mechanism in _PASSWORD_MECHANISMS else ()
    missing = [f"'kafka.{name}'" for name in needed if not connecting.get(name.replace(".", "_"))]
    if missing:
        raise OptionError(
            f"the option 'kafka.sasl.mechanism' is {mechanism}, but {' and '.join(missing)} "
            f"{'are' if len(missing) > 1 else 'is'} missing"
        )
    if mechanism == "AWS_MSK_IAM" and protocol != "SASL_SSL":
        raise OptionError(
            f"the option 'kafka.sasl.mechanism' is {mechanism}, but 'kafka.security.protocol' is {protocol}: "
            "expected SASL_SSL"
        )


def _converted(name: str, value: Any, convert: Callable[[str], Any]) -> Any:
    try:
        return convert(str(value))
    except ValueError as error:
        raise OptionError(f"the option 'kafka.{name}' is malformed: {error}") from None
