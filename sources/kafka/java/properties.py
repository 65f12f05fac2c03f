"""The ``kafka.*`` options: under the names of Kafka's Java client, with values for our reader.

Properties files, which Kafka's own tools take with ``--command-config``, are also read here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from ipaddress import IPv6Address
from pathlib import Path
from typing import Any

from tidegate.errors import OptionError, did_you_mean
from tidegate.readers.kafka.config import KafkaConnectionConfig
from tidegate.readers.kafka.wire.frames import LARGEST_FRAME
from tidegate.readers.retry import FIRST_PAUSE_S, LONGEST_PAUSE_S
from tidegate.sources.kafka.java.login import check_login, either, take_login_module
from tidegate.sources.kafka.java.table import INSTEAD, PROPERTIES, is_of, why_without_effect

_FRAME_BEYOND_RECORDS = 512  # as librdkafka has it
_SHORTEST_PAUSE_S = 0.001  # a busy loop does not help
_LARGEST_PORT = 65_535
_LISTENER = re.compile("^[A-Z0-9_]+://")  # as brokers advertise it; a URL such as http://broker:9092 is no server
_LOGIN = re.compile(r"^([A-Za-z0-9_+.-]+://)?.*@", re.DOTALL)

# Each of the first is useless without one of the second.
_NEEDS = (
    (("ssl.truststore.password",), ("ssl.truststore.location",), "it opens that file"),
    (("ssl.keystore.password",), ("ssl.keystore.location",), "it opens that file"),
    (("ssl.key.password",), ("ssl.keystore.location", "ssl.keystore.key"), "it opens the key there"),
    (("ssl.keystore.key",), ("ssl.keystore.certificate.chain",), "a key is of use with its certificate only"),
    (("ssl.keystore.certificate.chain",), ("ssl.keystore.key",), "a certificate is of use with its key only"),
)
_INSTEAD_OF_EACH_OTHER = (
    ("ssl.truststore.location", "ssl.truststore.certificates"),
    ("ssl.keystore.location", "ssl.keystore.certificate.chain"),
)


def connection_config(bootstrap_servers: str, properties: Mapping[str, Any]) -> KafkaConnectionConfig:
    """Return the configuration of the connection and of reading.

    bootstrap_servers: ``host:port``, several separated by commas; the default port is 9092.
    properties: by Kafka's names without the prefix ``kafka.``.

    Raises OptionError for the first property that is unknown, malformed or missing; it never shows a value.
    """
    servers = _servers_of(bootstrap_servers)
    reading: dict[str, Any] = {}
    connecting: dict[str, Any] = {}
    for name, value in properties.items():
        if (listed := PROPERTIES.get(name)) is not None:
            converted = _converted(name, value, listed.convert)
            if listed.field is not None:
                reading[listed.field] = converted
            elif converted is not None:
                connecting[name.replace(".", "_")] = converted
        elif name == "bootstrap.servers":
            raise OptionError("the option 'kafka.bootstrap.servers' is given twice; it is not a property of the client")
        elif instead := next((why for key, why in INSTEAD.items() if is_of(name, key)), None):
            raise OptionError(f"the option 'kafka.{name}' is of another client of Kafka; here, {instead}")
        elif why_without_effect(name) is None:
            raise OptionError(
                f"there is no option 'kafka.{name}'{did_you_mean(f'kafka.{name}', [f'kafka.{n}' for n in known()])}"
            )
    _check_protocol(connecting)
    take_login_module(connecting)
    check_login(connecting)
    _check_certificates(connecting)
    _pair_backoffs(reading)
    config = KafkaConnectionConfig(servers, connecting, **reading)
    if config.fetch_max_bytes + _FRAME_BEYOND_RECORDS > LARGEST_FRAME:
        connecting.setdefault("receive_message_max_bytes", config.fetch_max_bytes + _FRAME_BEYOND_RECORDS)
    return config


def without_effect(properties: Mapping[str, Any]) -> list[str]:
    """Return the properties that are accepted and change nothing, each with the reason."""
    reasons = {name: why_without_effect(name) for name in properties}
    return [f"kafka.{name} ({reason})" for name, reason in reasons.items() if reason is not None]


def known() -> list[str]:
    """Return all property names without their prefix."""
    return ["bootstrap.servers", *PROPERTIES]


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


def _check_certificates(connecting: Mapping[str, Any]) -> None:
    """Raise OptionError for options of keys and certificates that lack something, or exclude each other."""

    def is_set(option: str) -> bool:
        return option.replace(".", "_") in connecting

    for names in _INSTEAD_OF_EACH_OTHER:
        both = [f"'kafka.{name}'" for name in names if is_set(name)]
        if len(both) > 1:
            raise OptionError(f"the options {both[0]} and {both[1]} exclude each other; set one of them")
    for options, needed, why in _NEEDS:
        option = next(filter(is_set, options), None)
        if option is not None and not any(map(is_set, needed)):
            missing = either([f"'kafka.{name}'" for name in needed])
            raise OptionError(f"the option 'kafka.{option}' is given, but {missing} is missing: {why}")


def _pair_backoffs(reading: MutableMapping[str, Any]) -> None:
    """Make the longest of the growing pauses at least as long as the first one."""
    first_s = max(_SHORTEST_PAUSE_S, reading.pop("retry_backoff_s", FIRST_PAUSE_S))
    reading["retry_pauses_s"] = (first_s, max(first_s, reading.pop("retry_backoff_max_s", LONGEST_PAUSE_S)))


def _converted(name: str, value: Any, convert: Callable[[str], Any]) -> Any:
    try:
        return convert(str(value))
    except ValueError as error:
        raise OptionError(f"the option 'kafka.{name}' is malformed: {error}") from None


def _servers_of(text: str) -> str:
    """Return the servers as kafka-python reads them, without blanks and the name of a listener before ``://``.

    Raises OptionError, which never shows a login.
    """
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


# A line of java.util.Properties: the key ends at the first blank, = or : that no backslash precedes.
_LINE = re.compile(r"(?P<key>(?:\\.|[^\\\s=:])+)[ \t\f]*(?P<sign>[=:]?)[ \t\f]*(?P<value>.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u(?P<code>[0-9a-fA-F]{4})|(?P<letter>.))", re.DOTALL)
_LETTERS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def read_properties(option: str, path: Path) -> dict[str, str]:
    """Read the properties in a file in UTF-8; if a key comes twice, the last value counts.

    A prefix ``kafka.`` is removed.  Raises OptionError, which never shows the file's content.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise OptionError(f"{option} is {path}, which cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise OptionError(f"{option} is {path}, which is not in UTF-8") from None
    properties = {}
    for number, line in _lines(text):
        match = _LINE.fullmatch(line)
        if match is None or not (match["sign"] or match["value"]):
            raise OptionError(
                f"{option} is {path}, whose line {number} is not a property; expected key=value, such as "
                "security.protocol=SSL"
            )
        properties[_unescaped(match["key"]).removeprefix("kafka.")] = _unescaped(match["value"])
    return properties


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield each logical line with the number of its first one; a backslash at the end continues it."""
    begun, first = "", 0
    for number, line in enumerate(re.split(r"\r\n|\r|\n", text), start=1):
        part = line.lstrip()
        if not begun:
            first = number
            if not part or part[0] in "#!":
                continue
        begun += part
        if (len(begun) - len(begun.rstrip("\\"))) % 2:
            begun = begun[:-1]
            continue
        yield first, begun
        begun = ""
    if begun:
        yield first, begun


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(
        lambda escape: (
            chr(int(escape["code"], 16)) if escape["code"] else _LETTERS.get(escape["letter"], escape["letter"])
        ),
        text,
    )
