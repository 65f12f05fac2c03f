"""The ``kafka.*`` options: under the names of Kafka's Java client, with values for our reader."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from typing import Any
from urllib.parse import urlsplit

from tidegate.errors import OptionError, did_you_mean
from tidegate.readers.decompression import parse_most_bytes
from tidegate.readers.kafka.config import KafkaConnectionConfig
from tidegate.readers.kafka.wire.frames import LARGEST_FRAME
from tidegate.readers.retry import FIRST_PAUSE_S, LONGEST_PAUSE_S
from tidegate.sources.kafka.login import MECHANISMS, callback_name, check_login, either, take_login_module
from tidegate.sources.kafka.servers import parse_servers
from tidegate.sources.kafka.without_effect import INSTEAD, why_without_effect

__all__ = ["connection_config", "without_effect"]

_PROXIES = ("http", "socks5", "socks5h")
_FRAME_BEYOND_RECORDS = 512  # as librdkafka has it
_SHORTEST_PAUSE_S = 0.001  # a busy loop helps nobody
_VERSIONS = ("TLSv1.2", "TLSv1.3")
_OLDER_VERSIONS = ("SSLv3", "TLSv1", "TLSv1.1")
_STORES = ("JKS", "PKCS12", "PEM")


def _boolean(text: str) -> bool:
    if text.lower() not in {"true", "false"}:
        raise ValueError("expected true or false")
    return text.lower() == "true"


def _natural(text: str) -> int:
    number = int(text) if text.strip().isdecimal() else 0
    if number <= 0:
        raise ValueError("expected a whole number above zero")
    return number


def _zero_or_more(text: str) -> int:
    if not text.strip().isdecimal():
        raise ValueError("expected a whole number of 0 or more")
    return int(text)


def _buffer(text: str) -> int:
    return -1 if text.strip() == "-1" else _natural(text)


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _newest_version(text: str) -> str:
    """Java's ``ssl.protocol`` is the newest version; TLS stands for any."""
    if text == "TLS":
        return _VERSIONS[-1]
    return _one_of(*_VERSIONS, "TLS")(text)


def _tls_versions(text: str) -> tuple[str, ...]:
    """Leave out old versions, which OpenSSL no longer speaks, if there is a newer one."""
    names = _names(text)
    if wrong := next((name for name in names if name not in (*_VERSIONS, *_OLDER_VERSIONS)), None):
        raise ValueError(f"expected {either(_VERSIONS)}, or both with a comma{did_you_mean(wrong, _VERSIONS)}")
    versions = tuple(version for version in _VERSIONS if version in names)
    if not versions:
        raise ValueError(f"expected {either(_VERSIONS)}: older versions are not safe")
    return versions


def _checks_names(text: str) -> bool:
    """Java's algorithm is https; empty switches the check off."""
    if text.strip().lower() not in {"", "https"}:
        raise ValueError("expected https, or nothing to accept a certificate of any host")
    return bool(text.strip())


def _store_type(text: str) -> str:
    return _one_of(*_STORES)(text.upper())


def _token_url(text: str) -> str:
    if urlsplit(text).scheme not in {"https", "http", "file"}:
        raise ValueError("expected a URL of https, http or file")
    return text


def _one_of(*allowed: str) -> Callable[[str], str]:
    def check(text: str) -> str:
        if text not in allowed:
            raise ValueError(f"expected {either(allowed)}{did_you_mean(text, allowed)}")
        return text

    return check


def _proxy_url(text: str) -> str:
    # kafka-python shows the whole address with the password if it cannot read it.
    expected = f"expected {either(_PROXIES)}, such as socks5://proxy:1080 or socks5://user:password@proxy:1080"
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
    "client.rack": ("client_rack", str),
    "metadata.max.age.ms": ("metadata_max_age_s", lambda text: _natural(text) / 1000),
    "retry.backoff.ms": ("retry_backoff_s", lambda text: _zero_or_more(text) / 1000),
    "retry.backoff.max.ms": ("retry_backoff_max_s", lambda text: _zero_or_more(text) / 1000),
    "reconnect.backoff.ms": ("reconnect_backoff_s", lambda text: _zero_or_more(text) / 1000),
    "reconnect.backoff.max.ms": ("reconnect_backoff_max_s", lambda text: _zero_or_more(text) / 1000),
}

# How to connect: kafka-python's own names, and those of Java, but for dots.
_CONNECTING: dict[str, Callable[[str], Any]] = {
    "client.id": str,
    "request.timeout.ms": _natural,
    "socket.connection.setup.timeout.ms": _natural,
    "socket.connection.setup.timeout.max.ms": _natural,
    "send.buffer.bytes": _buffer,
    "receive.buffer.bytes": _buffer,
    "receive.message.max.bytes": _natural,
    "security.protocol": _one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    "sasl.mechanism": _one_of(*MECHANISMS),
    "sasl.jaas.config": str,
    "sasl.plain.username": str,
    "sasl.plain.password": str,
    "sasl.kerberos.name": str,
    "sasl.kerberos.service.name": str,
    "sasl.kerberos.domain.name": str,
    "sasl.oauthbearer.token.endpoint.url": _token_url,
    "sasl.oauthbearer.client.credentials.client.id": str,
    "sasl.oauthbearer.client.credentials.client.secret": str,
    "sasl.oauthbearer.scope": str,
    "sasl.oauthbearer.header.urlencode": _boolean,
    "sasl.login.callback.handler.class": callback_name,
    "sasl.client.callback.handler.class": callback_name,
    "sasl.login.connect.timeout.ms": _natural,
    "sasl.login.read.timeout.ms": _natural,
    "ssl.truststore.location": str,
    "ssl.truststore.password": str,
    "ssl.truststore.type": _store_type,
    "ssl.truststore.certificates": str,
    "ssl.keystore.location": str,
    "ssl.keystore.password": str,
    "ssl.keystore.type": _store_type,
    "ssl.keystore.key": str,
    "ssl.keystore.certificate.chain": str,
    "ssl.key.password": str,
    "ssl.cafile": str,
    "ssl.certfile": str,
    "ssl.keyfile": str,
    "ssl.password": str,
    "ssl.crlfile": str,
    "ssl.endpoint.identification.algorithm": _checks_names,
    "ssl.check.hostname": _boolean,
    "ssl.protocol": _newest_version,
    "ssl.enabled.protocols": _tls_versions,
    "ssl.cipher.suites": _names,
    "proxy.url": _proxy_url,
}

# Each of the first is of no use without one of the second.
_NEEDS = (
    (("ssl.keyfile", "ssl.password"), ("ssl.certfile",), "a key is of use with its certificate only"),
    (("ssl.truststore.password",), ("ssl.truststore.location",), "it opens that file"),
    (("ssl.keystore.password",), ("ssl.keystore.location",), "it opens that file"),
    (("ssl.key.password",), ("ssl.keystore.location", "ssl.keystore.key"), "it opens the key there"),
    (("ssl.keystore.key",), ("ssl.keystore.certificate.chain",), "a key is of use with its certificate only"),
    (("ssl.keystore.certificate.chain",), ("ssl.keystore.key",), "a certificate is of use with its key only"),
)
_INSTEAD_OF_EACH_OTHER = (
    ("ssl.cafile", "ssl.truststore.location", "ssl.truststore.certificates"),
    ("ssl.certfile", "ssl.keystore.location", "ssl.keystore.certificate.chain"),
)


def connection_config(bootstrap_servers: str, properties: Mapping[str, Any]) -> KafkaConnectionConfig:
    """Return the configuration of the connection and of reading.

    bootstrap_servers: ``host:port``, several separated by commas; the default port is 9092.
    properties: by Kafka's names without the prefix ``kafka.``.

    Raises OptionError for the first one that is unknown, malformed or missing; it never shows a value of a property.
    """
    servers = parse_servers(bootstrap_servers)
    reading: dict[str, Any] = {}
    connecting: dict[str, Any] = {}
    for name, value in properties.items():
        if name in _READING:
            field, convert = _READING[name]
            reading[field] = _converted(name, value, convert)
        elif name in _CONNECTING:
            converted = _converted(name, value, _CONNECTING[name])
            if converted is not None:
                connecting[name.replace(".", "_")] = converted
        elif name == "bootstrap.servers":
            raise OptionError("the option 'kafka.bootstrap.servers' is given twice; it is no property of the client")
        elif (instead := _instead(name)) is not None:
            raise OptionError(f"the option 'kafka.{name}' is of Kafka's Java client; here, {instead}")
        elif why_without_effect(name) is None:
            raise OptionError(
                f"there is no option 'kafka.{name}'{did_you_mean(f'kafka.{name}', [f'kafka.{n}' for n in known()])}"
            )
    _check_protocol(connecting)
    take_login_module(connecting)
    check_login(connecting)
    _check_certificates(connecting)
    _join_tls(connecting)
    _pair_backoffs(reading)
    config = KafkaConnectionConfig(servers, connecting, **reading)
    if config.fetch_max_bytes + _FRAME_BEYOND_RECORDS > LARGEST_FRAME:
        connecting.setdefault("receive_message_max_bytes", config.fetch_max_bytes + _FRAME_BEYOND_RECORDS)
    return config


def without_effect(properties: Mapping[str, Any]) -> list[str]:
    """Return the properties that are accepted and change nothing, each with the reason."""
    reasons = {name: why_without_effect(name) for name in properties}
    return [f"kafka.{name} ({reason})" for name, reason in reasons.items() if reason is not None]


def _instead(name: str) -> str | None:
    """Return the replacement for a property that is refused; None: it is not."""
    named = (key for key in INSTEAD if name == key or (key[-1] == "." and name.startswith(key)))
    return next((INSTEAD[key] for key in named), None)


def known() -> list[str]:
    """Return all property names without their prefix."""
    return ["bootstrap.servers", *_READING, *_CONNECTING]


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


def _join_tls(connecting: MutableMapping[str, Any]) -> None:
    """Join the two names of one thing, and the versions of TLS."""
    checks_names = connecting.pop("ssl_endpoint_identification_algorithm", None)
    if checks_names is not None and connecting.setdefault("ssl_check_hostname", checks_names) != checks_names:
        raise OptionError(
            "the options 'kafka.ssl.endpoint.identification.algorithm' and 'kafka.ssl.check.hostname' contradict each "
            "other; set one of them"
        )
    newest, enabled = connecting.pop("ssl_protocol", None), connecting.pop("ssl_enabled_protocols", None)
    if newest is None and enabled is None:
        return
    versions = tuple(version for version in enabled or _VERSIONS if version <= (newest or _VERSIONS[-1]))
    if not versions:
        raise OptionError(
            f"the option 'kafka.ssl.protocol' is {newest}, but 'kafka.ssl.enabled.protocols' has newer versions only"
        )
    connecting["ssl_versions"] = versions


def _pair_backoffs(reading: MutableMapping[str, Any]) -> None:
    """Keep the longest of the growing pauses from being shorter than the first one."""
    for name, (first_s, longest_s) in {"reconnect": (0.0, 0.0), "retry": (FIRST_PAUSE_S, LONGEST_PAUSE_S)}.items():
        given_s = reading.pop(f"{name}_backoff_s", first_s)
        least_s = given_s if name == "reconnect" else max(_SHORTEST_PAUSE_S, given_s)
        reading[f"{name}_pauses_s"] = (least_s, max(least_s, reading.pop(f"{name}_backoff_max_s", longest_s)))


def _converted(name: str, value: Any, convert: Callable[[str], Any]) -> Any:
    try:
        return convert(str(value))
    except ValueError as error:
        raise OptionError(f"the option 'kafka.{name}' is malformed: {error}") from None
