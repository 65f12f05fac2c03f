"""The table of the ``kafka.*`` properties: their names, the values that they take, and their meaning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from tidegate.errors import did_you_mean
from tidegate.readers.decompression import parse_most_bytes
from tidegate.sources.kafka.login import MECHANISMS, callback_name, either

__all__ = ["PROPERTIES", "VERSIONS", "Property"]

VERSIONS = ("TLSv1.2", "TLSv1.3")
_PROXIES = ("http", "socks5", "socks5h")
_OLDER_VERSIONS = ("SSLv3", "TLSv1", "TLSv1.1")
_STORES = ("JKS", "PKCS12", "PEM")
_LARGEST_INT, _LARGEST_LONG = 2**31 - 1, 2**63 - 1  # of Java, and of Kafka's protocol


class Property(NamedTuple):
    """A property of the connection or of reading.

    convert: returns what a text means, None if nothing; raises ValueError, whose text says what is expected.
    kind, default, meaning: for the documentation, in Markdown.
    field: of KafkaConnectionConfig, if it says how to read; otherwise the connection knows the name, but for dots.
    """

    name: str
    convert: Callable[[str], Any]
    kind: str
    default: str
    meaning: str
    field: str | None = None

    @property
    def unit(self) -> str:
        """The unit of a number, by its name; empty without one."""
        return {"ms": "ms", "bytes": "bytes"}.get(self.name.rpartition(".")[2], "")


def _boolean(text: str) -> bool:
    if text.lower() not in {"true", "false"}:
        raise ValueError("expected true or false")
    return text.lower() == "true"


def _natural(text: str, largest: int = _LARGEST_INT) -> int:
    number = int(text) if text.strip().isdecimal() else 0
    if number <= 0:
        raise ValueError("expected a whole number above zero")
    return _at_most(largest, number)


def _at_most(largest: int, number: int) -> int:
    if number > largest:
        raise ValueError(f"expected a whole number up to {largest}")
    return number


def _long(text: str) -> int:
    return _natural(text, _LARGEST_LONG)


def _seconds(text: str) -> float:
    return _long(text) / 1000


def _seconds_or_none(text: str) -> float:
    return _zero_or_more(text) / 1000


def _zero_or_more(text: str) -> int:
    if not text.strip().isdecimal():
        raise ValueError("expected a whole number of 0 or more")
    return _at_most(_LARGEST_LONG, int(text))


def _buffer(text: str) -> int:
    return -1 if text.strip() == "-1" else _natural(text)


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _newest_version(text: str) -> str:
    """Java's ``ssl.protocol`` is the newest version; TLS stands for any."""
    if text == "TLS":
        return VERSIONS[-1]
    return _one_of(*VERSIONS, "TLS")(text)


def _tls_versions(text: str) -> tuple[str, ...]:
    """Leave out old versions, which OpenSSL no longer speaks, if there is a newer one."""
    names = _names(text)
    if wrong := next((name for name in names if name not in (*VERSIONS, *_OLDER_VERSIONS)), None):
        raise ValueError(f"expected {either(VERSIONS)}, or both with a comma{did_you_mean(wrong, VERSIONS)}")
    versions = tuple(version for version in VERSIONS if version in names)
    if not versions:
        raise ValueError(f"expected {either(VERSIONS)}: older versions are not safe")
    return versions


def _checks_names(text: str) -> bool:
    """Java's algorithm is https; empty switches the check off."""
    if text.strip().lower() not in {"", "https"}:
        raise ValueError("expected https, or nothing to accept a certificate of any host")
    return bool(text.strip())


def _store_type(text: str) -> str:
    return _one_of(*_STORES)(text.upper())


def _token_url(text: str) -> str:
    # Python's client for HTTP takes a login for a part of the host, and shows it in its error.
    expected = "expected a URL of https, http or file with a host or a path, such as https://login.example.com/token"
    try:
        url = urlsplit(text)
        host, _ = url.hostname, url.port
    except ValueError:
        raise ValueError(expected) from None
    if url.scheme not in {"https", "http", "file"} or not (url.path if url.scheme == "file" else host):
        raise ValueError(expected)
    if "@" in url.netloc:
        raise ValueError(f"{expected}; a login goes into kafka.sasl.oauthbearer.client.credentials.*")
    if not text.isprintable() or " " in text:
        raise ValueError(f"{expected}, without blanks")
    return text


def _java_handler(text: str) -> None:
    if callback_name(text) is not None:
        raise ValueError("a function that returns tokens goes into kafka.sasl.login.callback.handler.class")


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


_TABLE = (
    Property(
        "isolation.level",
        _one_of("read_uncommitted", "read_committed"),
        "text",
        "`read_uncommitted`",
        "`read_committed` leaves out the records of aborted transactions",
        "isolation_level",
    ),
    Property("check.crcs", _boolean, "boolean", "`true`", "`false` skips the checksums", "check_crcs"),
    Property(
        "max.decompressed.bytes",
        parse_most_bytes,
        "number",
        "268435456",
        "what one record batch may take decompressed, at most 1 TiB. A larger one ends the query",
        "max_decompressed_bytes",
    ),
    Property(
        "fetch.max.bytes",
        _natural,
        "number",
        "4194304",
        "the most bytes of one answer; a larger record batch still comes whole",
        "fetch_max_bytes",
    ),
    Property(
        "max.partition.fetch.bytes",
        _natural,
        "number",
        "4194304",
        "the most bytes of one partition in an answer",
        "max_partition_fetch_bytes",
    ),
    Property(
        "fetch.max.wait.ms",
        _natural,
        "number",
        "500",
        "how long a broker may hold back an answer while it has nothing to send",
        "fetch_max_wait_ms",
    ),
    Property(
        "receive.message.max.bytes",
        _natural,
        "number",
        "100000000, or what `kafka.fetch.max.bytes` needs",
        "the largest answer that is accepted",
    ),
    Property("client.id", str, "text", "`tidegate`", "the name that brokers log and quotas go by"),
    Property(
        "client.rack",
        str,
        "text",
        "none: leaders are read",
        "where the client is. A follower in the same place serves the records (KIP-392), if the brokers' "
        "`replica.selector.class` says so",
        "client_rack",
    ),
    Property(
        "default.api.timeout.ms",
        _seconds,
        "number",
        "60000",
        "the deadline of every operation, retries included",
        "deadline_s",
    ),
    Property(
        "request.timeout.ms",
        _natural,
        "number",
        "30000",
        "how long one request may take, to the last byte of its answer, before it is repeated",
    ),
    Property(
        "retry.backoff.ms",
        _seconds_or_none,
        "number",
        "50",
        "the pause before an operation is tried again. It doubles each time",
        "retry_backoff_s",
    ),
    Property(
        "retry.backoff.max.ms",
        _seconds_or_none,
        "number",
        "2000",
        "the longest pause before an operation is tried again",
        "retry_backoff_max_s",
    ),
    Property(
        "reconnect.backoff.ms",
        _seconds_or_none,
        "number",
        "0",
        "the pause before a broker that could not be reached is tried again. It doubles each time",
        "reconnect_backoff_s",
    ),
    Property(
        "reconnect.backoff.max.ms",
        _seconds_or_none,
        "number",
        "`kafka.reconnect.backoff.ms`",
        "the longest pause before a broker is tried again",
        "reconnect_backoff_max_s",
    ),
    Property(
        "socket.connection.setup.timeout.ms",
        _long,
        "number",
        "10000",
        "how long a broker may take to its first answer. It doubles with each failure",
    ),
    Property(
        "socket.connection.setup.timeout.max.ms",
        _long,
        "number",
        "`kafka.socket.connection.setup.timeout.ms`",
        "the longest time that a broker may take to its first answer",
    ),
    Property(
        "metadata.max.age.ms",
        _seconds,
        "number",
        "300000",
        "how long the leaders of partitions stay known before they are looked up again. `discoveryInterval` is for new "
        "partitions",
        "metadata_max_age_s",
    ),
    Property("send.buffer.bytes", _buffer, "number", "-1: the system decides", "a connection's buffer for sending"),
    Property(
        "receive.buffer.bytes", _buffer, "number", "-1: the system decides", "a connection's buffer for receiving"
    ),
    Property(
        "proxy.url",
        _proxy_url,
        "URL",
        "none",
        "`http://`, `socks5://` or `socks5h://`, `[user:password@]host:port`. User and password are percent-encoded",
    ),
    Property(
        "security.protocol",
        _one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
        "text",
        "`PLAINTEXT`",
        "`SSL`, `SASL_PLAINTEXT`, `SASL_SSL`. Required as soon as a `kafka.sasl.*` or `kafka.ssl.*` is given",
    ),
    Property(
        "sasl.mechanism",
        _one_of(*MECHANISMS),
        "text",
        "required with `SASL_*`",
        "`PLAIN`, `SCRAM-SHA-256`, `SCRAM-SHA-512`, `GSSAPI`, `OAUTHBEARER`, `AWS_MSK_IAM` (needs `SASL_SSL`)",
    ),
    Property(
        "sasl.jaas.config",
        str,
        "text",
        "none",
        "the login module of PLAIN, SCRAM (also with a delegation token), OAUTHBEARER, Kerberos or AWS MSK IAM, quoted "
        "as in Java",
    ),
    Property("sasl.plain.username", str, "text", "of the login module", "the user of `PLAIN` and `SCRAM-*`"),
    Property("sasl.plain.password", str, "text", "of the login module", "the password of `PLAIN` and `SCRAM-*`"),
    Property("sasl.kerberos.service.name", str, "text", "`kafka`", "the name of the brokers' service"),
    Property("sasl.kerberos.name", str, "text", "service and host", "the brokers' principal as a whole"),
    Property("sasl.kerberos.domain.name", str, "text", "the broker's host", "the host in that principal"),
    Property(
        "sasl.oauthbearer.token.endpoint.url",
        _token_url,
        "URL",
        "none",
        "where OAUTHBEARER gets tokens for client credentials (KIP-768). A `file:` URL names a file with a token",
    ),
    Property(
        "sasl.oauthbearer.client.credentials.client.id",
        str,
        "text",
        "`clientId` of the login module",
        "the client's id at the token endpoint",
    ),
    Property(
        "sasl.oauthbearer.client.credentials.client.secret",
        str,
        "text",
        "`clientSecret` of the login module",
        "the client's secret at the token endpoint",
    ),
    Property("sasl.oauthbearer.scope", str, "text", "`scope` of the login module", "the scope of the token"),
    Property(
        "sasl.oauthbearer.header.urlencode",
        _boolean,
        "boolean",
        "`false`",
        "percent-encodes id and secret in the header",
    ),
    Property(
        "sasl.login.callback.handler.class",
        callback_name,
        "text",
        "none",
        "a Python function that gives a token, as `package:function`. Kafka's own handler may be named, too",
    ),
    Property(
        "sasl.client.callback.handler.class",
        _java_handler,
        "text",
        "none",
        "Kafka's and Amazon's own handlers may be named",
    ),
    Property(
        "sasl.login.connect.timeout.ms",
        _natural,
        "number",
        "30000",
        "how long the token endpoint may take; the shorter of this limit and the next counts",
    ),
    Property(
        "sasl.login.read.timeout.ms",
        _natural,
        "number",
        "30000",
        "how long the token endpoint may take; the shorter of the two limits counts",
    ),
    Property(
        "ssl.truststore.location",
        str,
        "file",
        "the system's CAs",
        "JKS, PKCS12 or PEM; the file itself tells which. PKCS12 needs `pip install 'tidegate[keystores]'`",
    ),
    Property(
        "ssl.truststore.password",
        str,
        "text",
        "none",
        "the password of the trust store; without one, JKS is read unchecked",
    ),
    Property("ssl.truststore.type", _store_type, "text", "by the file", "`JKS`, `PKCS12` or `PEM`"),
    Property("ssl.truststore.certificates", str, "PEM", "none", "the trusted certificates themselves, without a file"),
    Property(
        "ssl.keystore.location", str, "file", "none", "the key and the certificate that are shown to a broker that asks"
    ),
    Property("ssl.keystore.password", str, "text", "none", "the password of the key store"),
    Property("ssl.keystore.type", _store_type, "text", "by the file", "`JKS`, `PKCS12` or `PEM`"),
    Property("ssl.keystore.key", str, "PEM", "none", "the key itself, without a file"),
    Property("ssl.keystore.certificate.chain", str, "PEM", "none", "the certificate itself, and those of its CAs"),
    Property(
        "ssl.key.password",
        str,
        "text",
        "`kafka.ssl.keystore.password`",
        "the password of the key, in the store or in the option",
    ),
    Property("ssl.cafile", str, "file", "the system's CAs", "PEM, as `kafka.ssl.truststore.location`"),
    Property(
        "ssl.certfile",
        str,
        "file",
        "none",
        "PEM with the certificate that is shown to a broker that asks. The key may lie in it, too",
    ),
    Property("ssl.keyfile", str, "file", "`kafka.ssl.certfile`", "PEM with the key of that certificate"),
    Property(
        "ssl.password",
        str,
        "text",
        "none",
        "the password of that key, if it is encrypted; it is never requested on a terminal",
    ),
    Property("ssl.crlfile", str, "file", "none", "PEM with the list of revoked certificates (CRL) of the broker's CA"),
    Property(
        "ssl.endpoint.identification.algorithm",
        _checks_names,
        "text",
        "`https`",
        "empty: the broker's certificate may be of any host",
    ),
    Property(
        "ssl.check.hostname",
        _boolean,
        "boolean",
        "`true`",
        "`false`: the broker's certificate may be of any host",
    ),
    Property("ssl.protocol", _newest_version, "text", "`TLSv1.3`", "the newest version of TLS"),
    Property(
        "ssl.enabled.protocols",
        _tls_versions,
        "list",
        "`TLSv1.2,TLSv1.3`",
        "the versions that are used. Older ones are left out",
    ),
    Property(
        "ssl.cipher.suites",
        _names,
        "list",
        "OpenSSL's own",
        "names as in Java. One suite of TLS 1.3 stands for all of them",
    ),
)

PROPERTIES: dict[str, Property] = {listed.name: listed for listed in _TABLE}
