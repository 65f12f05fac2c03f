"""A matrix of TLS, logins and rights on a real broker: the ways that work, and the errors of those that do not.

``python -m tests.readers.kafka.wire.security_matrix`` writes it to ``docs/reference/login-errors.md``.
"""

from __future__ import annotations

import re
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from tests.support.kafka.lab import Lab, Record, encode
from tests.support.servers.tokens import (
    CLIENT,
    CLIENT_SECRET,
    STORE_PASSWORD,
    Authority,
    TokenEndpoint,
    key_store,
    signers,
    trust_stores,
)
from tidegate.alignment.splits import SplitRange
from tidegate.errors import TidegateError
from tidegate.readers.contract import ReadTask
from tidegate.readers.kafka.client import KafkaClient
from tidegate.readers.kafka.reader import KafkaSplitReader
from tidegate.servers import KafkaSecurity, KafkaServer
from tidegate.sources.kafka.java.properties import connection_config

PAGE = Path(__file__).parents[4] / "docs" / "reference" / "login-errors.md"
BEGIN, END = "<!-- made by tests/readers/kafka/wire/security_matrix.py -->\n", "<!-- end -->\n"
REFUSED = "the Kafka broker broker:9093 refused the connection: "
MODULES = "org.apache.kafka.common.security"
USER, ODD_USER, PASSWORD, WRONG = "me", "me,you=us", "hunter2", "swordfish"
READABLE, SEEN, HIDDEN = "orders", "payments", "salaries"
ROWS = 20
ENDS_AFTER_S = 2.0


@dataclass(frozen=True)
class Case:
    """A way to connect.

    refusal: a part of the error's sentence; None: it works.
    """

    title: str
    listener: str
    properties: dict[str, str] = field(default_factory=dict)
    refusal: str | None = None
    topic: str = READABLE


class Outcome(NamedTuple):
    case: Case
    rows: int
    sentence: str


class Place(NamedTuple):
    """The broker and all the files of its clients."""

    kafka: KafkaServer
    folder: Path
    authority: Authority
    key_store: Path
    trusted: dict[str, Path]
    endpoint: TokenEndpoint

    def servers(self, listener):
        return self.kafka.bootstrap_servers if listener == "PLAINTEXT" else self.kafka.servers_of(listener)


@contextmanager
def place(folder):
    """Start the broker, with topics, users and rights."""
    authority = Authority(folder)
    keystore, expired = authority.issue("broker"), authority.issue("expired", has_expired=True)
    security = KafkaSecurity(
        {USER: PASSWORD},
        keystore,
        authority.certificate,
        {"EXPIRED": expired},
        token_keys=signers["ours"].keys(folder),
        has_acls=True,
    )
    mine = authority.issue("mine")
    authority.issue("outdated", has_expired=True)
    authority.issue("locked", password=PASSWORD)
    with (
        KafkaServer(security=security, properties={"connection.failed.authentication.delay.ms": "0"}) as kafka,
        TokenEndpoint(signers["ours"]) as endpoint,
    ):
        kafka.add_scram_user(ODD_USER, PASSWORD, iterations=8192)
        lab = Lab(kafka)
        for topic in (READABLE, SEEN, HIDDEN):
            kafka.create_topic(topic)
            lab.append(topic, encode([Record(value=b"%d" % n) for n in range(ROWS)]))
        for user in (USER, ODD_USER, CLIENT, "CN=mine", "CN=locked"):
            kafka.allow(user, "READ", READABLE)
            kafka.allow(user, "DESCRIBE", SEEN)
        store = key_store(mine, authority.certificate)
        yield Place(kafka, folder, authority, store, trust_stores(authority.certificate), endpoint)


def jaas(module, **options):
    return " ".join([f"{MODULES}.{module} required", *(f'{name}="{value}"' for name, value in options.items())]) + ";"


def cases(at):
    """Yield all rows of the matrix, in groups: TLS, certificates of clients, logins, tokens, rights."""
    ca = {"ssl.truststore.location": str(at.authority.certificate)}
    return [*_tls(at, ca), *_certificates(at, ca), *_logins(ca), *_tokens(at, ca), *_rights()]


def _tls(at, ca):
    jks, p12 = (str(at.trusted[kind]) for kind in ("JKS", "PKCS12"))
    password = {"ssl.truststore.password": STORE_PASSWORD}
    yield Case("trust store in PEM", "SSL", ca)
    yield Case("trust store in PEM, inside the option", "SSL", {"ssl.truststore.certificates": _text(at.authority)})
    yield Case("trust store in JKS", "SSL", {"ssl.truststore.location": jks, **password})
    yield Case("trust store in PKCS12", "SSL", {"ssl.truststore.location": p12, **password})
    wrong = {"ssl.truststore.location": p12, "ssl.truststore.password": WRONG}
    yield Case("wrong password for the trust store", "SSL", wrong, "look at 'kafka.ssl.truststore.password'")
    yield Case("TLS 1.2", "SSL", {**ca, "ssl.enabled.protocols": "TLSv1.2,TLSv1.1"})
    yield Case(
        "the broker's certificate names another host",
        "SSL@localhost",
        ca,
        "look at kafka.ssl.endpoint",
    )
    yield Case(
        "the broker's certificate names another host, host names unchecked",
        "SSL@localhost",
        {**ca, "ssl.endpoint.identification.algorithm": ""},
    )
    yield Case("the broker's certificate has expired", "EXPIRED", ca, "certificate has expired")
    yield Case("the broker's certificate is from an unknown CA", "SSL", {}, "look at kafka.ssl.truststore.*")
    plain = Case("TLS to a listener without TLS", "PLAINTEXT", ca, "look at kafka.security.protocol")
    yield replace(plain, properties={**ca, "security.protocol": "SSL"})


def _certificates(at, ca):
    def in_pem(name):
        return {**ca, "ssl.keystore.location": str(at.folder / f"{name}.pem")}

    password = {"ssl.keystore.password": STORE_PASSWORD}
    key, chain = re.findall("-----BEGIN.*?-----END[^\n]*\n", (at.folder / "mine.pem").read_text(), re.DOTALL)
    inline = {"ssl.keystore.key": key, "ssl.keystore.certificate.chain": chain}
    refused = "look at kafka.ssl.keystore.* and kafka.security.protocol"
    yield Case("client key in PEM", "MTLS", in_pem("mine"))
    yield Case("client key in PEM, encrypted", "MTLS", {**in_pem("locked"), "ssl.key.password": PASSWORD})
    yield Case("client key in PEM, inside the options", "MTLS", {**ca, **inline})
    yield Case("client key in PKCS12", "MTLS", {**ca, "ssl.keystore.location": str(at.key_store), **password})
    yield Case("no client certificate", "MTLS", ca, refused)
    yield Case("the client certificate has expired", "MTLS", in_pem("outdated"), refused)
    stranger = Authority(at.folder / "elsewhere", "another CA").issue("stranger")
    yield Case(
        "the client certificate is from an unknown CA", "MTLS", {**ca, "ssl.keystore.location": str(stranger)}, refused
    )


def _logins(ca):
    def login(mechanism, user, password):
        module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
        return {"sasl.mechanism": mechanism, "sasl.jaas.config": jaas(module, username=user, password=password)}

    for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
        reason = "Authentication failed"
        yield Case(f"{mechanism}", "SASL_SSL", {**ca, **login(mechanism, USER, PASSWORD)})
        yield Case(f"{mechanism} with a wrong password", "SASL_SSL", {**ca, **login(mechanism, USER, WRONG)}, reason)
        unknown = {**ca, **login(mechanism, "nobody", PASSWORD)}
        yield Case(f"{mechanism} with an unknown user", "SASL_SSL", unknown, reason)
    odd = login("SCRAM-SHA-512", ODD_USER, PASSWORD)
    yield Case("SCRAM with a comma and an equals sign in the user name", "SASL_PLAINTEXT", odd)
    yield Case(
        "a mechanism that the broker does not offer", "SASL_PLAINTEXT", {"sasl.mechanism": "GSSAPI"}, "it offers "
    )


def _tokens(at, ca):
    def from_endpoint(secret, url=at.endpoint.url):
        module = jaas("oauthbearer.OAuthBearerLoginModule", clientId=CLIENT, clientSecret=secret, scope="kafka")
        return _oauth(ca, {"sasl.jaas.config": module, "sasl.oauthbearer.token.endpoint.url": url})

    def from_function(name):
        return _oauth(ca, {"sasl.login.callback.handler.class": f"tests.support.servers.tokens:{name}"})

    refused = "look at kafka.sasl.*"
    yield Case("OAUTHBEARER with a token endpoint", "SASL_SSL", from_endpoint(CLIENT_SECRET))
    yield Case("OAUTHBEARER with a Python function", "SASL_SSL", from_function("our_token"))
    yield Case("the token endpoint refuses the client", "SASL_SSL", from_endpoint(WRONG), "answers 401 invalid_client")
    away = from_endpoint(CLIENT_SECRET, "http://127.0.0.1:9/token")
    yield Case("the token endpoint cannot be reached", "SASL_SSL", away, "the token endpoint cannot be reached: ")
    yield Case("the token has an unknown signer", "SASL_SSL", from_function("foreign_token"), refused)
    yield Case("the token has expired", "SASL_SSL", from_function("expired_token"), refused)
    yield Case("the Python function raises an error", "SASL_SSL", from_function("no_token"), "the role may not sign")
    yield Case("the Python function does not exist", "SASL_SSL", from_function("misspelt"), "has no function misspelt")


def _rights():
    module = jaas("scram.ScramLoginModule", username=USER, password=PASSWORD)
    login = {"sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": module}
    missing = "Describe and Read on the topic"
    yield Case("no right (ACL) to read the topic", "SASL_PLAINTEXT", login, missing, SEEN)
    yield Case("no right to describe the topic", "SASL_PLAINTEXT", login, missing, HIDDEN)
    yield Case("no right on groups: none is needed", "SASL_PLAINTEXT", login)


def _oauth(ca, more):
    return {**ca, "sasl.mechanism": "OAUTHBEARER", **more}


def _text(authority):
    return authority.certificate.read_text().replace("\n", " ")


def outcome(at, case):
    """Connect, discover the topic and read it."""
    listener, _, host = case.listener.partition("@")
    servers = at.servers(listener).replace("127.0.0.1", host or "127.0.0.1")
    protocol = listener if listener.startswith("SASL") else "SSL"
    properties = {"security.protocol": protocol, **case.properties}
    rows, sentence = 0, ""
    try:
        config = replace(connection_config(servers, properties), deadline_s=ENDS_AFTER_S)
        with KafkaClient(config) as client:
            client.partitions([case.topic])
        task = ReadTask((SplitRange(f"{case.topic}-0", 0, ROWS),))
        rows = sum(batch.num_rows for batch in KafkaSplitReader(config).read(task))
    except TidegateError as error:
        sentence = str(error).replace(servers, "broker:9093").replace(str(at.folder), "/etc/kafka")
    return Outcome(case, rows, sentence)


def table(outcomes):
    """Return a table of the errors in Markdown, without what the page says once; cases with one error share a line."""
    refused = {}
    for one in outcomes:
        if one.sentence:
            refused.setdefault(one.sentence.removeprefix(REFUSED), []).append(one.case.title)
    lines = [("case", "error"), ("---", "---"), *(("; ".join(titles), error) for error, titles in refused.items())]
    return "".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |\n" for line in lines)


def main():
    with tempfile.TemporaryDirectory() as folder, place(Path(folder)) as at:
        outcomes = [outcome(at, case) for case in cases(at)]
    text = PAGE.read_text()
    before, _, remainder = text.partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n{table(outcomes)}\n{END}{remainder.partition(END)[2]}")


if __name__ == "__main__":
    main()
