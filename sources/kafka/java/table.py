"""The table of the ``kafka.*`` properties: their names, the values that they take, and their meaning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tidegate.readers.decompression import parse_most_bytes
from tidegate.sources.kafka.java import values
from tidegate.sources.kafka.java.login import MECHANISMS, callback_name

__all__ = ["PROPERTIES", "Property"]


class Property(NamedTuple):
    """A property of the connection or of reading.

    convert: returns the value of a text, None if it has no effect; raises ValueError, which says what is expected.
    kind, default, meaning: texts for the documentation, in Markdown.
    field: the field of KafkaConnectionConfig for a property of reading.  None: the connection takes the property
        under its name, with underscores for dots.
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


_TABLE = (
    Property(
        "isolation.level",
        values.one_of("read_uncommitted", "read_committed"),
        "text",
        "`read_uncommitted`",
        "`read_committed` leaves out the records of aborted transactions",
        "isolation_level",
    ),
    Property("check.crcs", values.boolean, "boolean", "`true`", "`false` skips the checksums", "check_crcs"),
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
        values.natural,
        "number",
        "4194304",
        "the most bytes of one answer; a larger record batch still comes whole",
        "fetch_max_bytes",
    ),
    Property(
        "max.partition.fetch.bytes",
        values.natural,
        "number",
        "4194304",
        "the most bytes of one partition in an answer",
        "max_partition_fetch_bytes",
    ),
    Property(
        "fetch.max.wait.ms",
        values.natural,
        "number",
        "500",
        "how long a broker may hold back an answer while it has nothing to send",
        "fetch_max_wait_ms",
    ),
    Property(
        "receive.message.max.bytes",
        values.natural,
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
        values.seconds,
        "number",
        "60000",
        "the deadline of every operation, retries included",
        "deadline_s",
    ),
    Property(
        "request.timeout.ms",
        values.natural,
        "number",
        "30000",
        "how long one request may take, to the last byte of its answer, before it is repeated",
    ),
    Property(
        "retry.backoff.ms",
        values.seconds_or_none,
        "number",
        "50",
        "the pause before an operation is tried again. It doubles each time",
        "retry_backoff_s",
    ),
    Property(
        "retry.backoff.max.ms",
        values.seconds_or_none,
        "number",
        "2000",
        "the longest pause before an operation is tried again",
        "retry_backoff_max_s",
    ),
    Property(
        "reconnect.backoff.ms",
        values.seconds_or_none,
        "number",
        "0",
        "the pause before a broker that could not be reached is tried again. It doubles each time",
        "reconnect_backoff_s",
    ),
    Property(
        "reconnect.backoff.max.ms",
        values.seconds_or_none,
        "number",
        "`kafka.reconnect.backoff.ms`",
        "the longest pause before a broker is tried again",
        "reconnect_backoff_max_s",
    ),
    Property(
        "socket.connection.setup.timeout.ms",
        values.long,
        "number",
        "10000",
        "how long a broker may take to its first answer. It doubles with each failure",
    ),
    Property(
        "socket.connection.setup.timeout.max.ms",
        values.long,
        "number",
        "`kafka.socket.connection.setup.timeout.ms`",
        "the longest time that a broker may take to its first answer",
    ),
    Property(
        "metadata.max.age.ms",
        values.seconds,
        "number",
        "300000",
        "how long the leaders of partitions stay known before they are looked up again. `discoveryInterval` is for new "
        "partitions",
        "metadata_max_age_s",
    ),
    Property(
        "send.buffer.bytes", values.buffer, "number", "-1: the system decides", "a connection's buffer for sending"
    ),
    Property(
        "receive.buffer.bytes", values.buffer, "number", "-1: the system decides", "a connection's buffer for receiving"
    ),
    Property(
        "proxy.url",
        values.proxy_url,
        "URL",
        "none",
        "`http://`, `socks5://` or `socks5h://`, `[user:password@]host:port`. User and password are percent-encoded",
    ),
    Property(
        "security.protocol",
        values.one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
        "text",
        "`PLAINTEXT`",
        "`SSL`, `SASL_PLAINTEXT`, `SASL_SSL`. Required as soon as a `kafka.sasl.*` or `kafka.ssl.*` is given",
    ),
    Property(
        "sasl.mechanism",
        values.one_of(*MECHANISMS),
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
        values.token_url,
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
        values.boolean,
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
        values.java_handler,
        "text",
        "none",
        "Kafka's and Amazon's own handlers may be named",
    ),
    Property(
        "sasl.login.connect.timeout.ms",
        values.natural,
        "number",
        "30000",
        "how long the token endpoint may take; the shorter of this limit and the next counts",
    ),
    Property(
        "sasl.login.read.timeout.ms",
        values.natural,
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
    Property("ssl.truststore.type", values.store_type, "text", "by the file", "`JKS`, `PKCS12` or `PEM`"),
    Property("ssl.truststore.certificates", str, "PEM", "none", "the trusted certificates themselves, without a file"),
    Property(
        "ssl.keystore.location", str, "file", "none", "the key and the certificate that are shown to a broker that asks"
    ),
    Property("ssl.keystore.password", str, "text", "none", "the password of the key store"),
    Property("ssl.keystore.type", values.store_type, "text", "by the file", "`JKS`, `PKCS12` or `PEM`"),
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
        values.checks_names,
        "text",
        "`https`",
        "empty: the broker's certificate may be of any host",
    ),
    Property(
        "ssl.check.hostname",
        values.boolean,
        "boolean",
        "`true`",
        "`false`: the broker's certificate may be of any host",
    ),
    Property("ssl.protocol", values.newest_version, "text", "`TLSv1.3`", "the newest version of TLS"),
    Property(
        "ssl.enabled.protocols",
        values.tls_versions,
        "list",
        "`TLSv1.2,TLSv1.3`",
        "the versions that are used. Older ones are left out",
    ),
    Property(
        "ssl.cipher.suites",
        values.names,
        "list",
        "OpenSSL's own",
        "names as in Java. One suite of TLS 1.3 stands for all of them",
    ),
)

PROPERTIES: dict[str, Property] = {listed.name: listed for listed in _TABLE}
