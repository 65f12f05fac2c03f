"""TLS and logins, against a broker that asks for them."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.readers.lab import Lab, Record, encode
from tidegate.alignment.splits import SplitRange
from tidegate.errors import ConnectorError, OptionError
from tidegate.readers.contract import ReadTask
from tidegate.readers.kafka_client import KafkaClient
from tidegate.readers.kafka_reader import KafkaSplitReader
from tidegate.servers import KafkaServer
from tidegate.servers.java import find_java
from tidegate.servers.server import HOST, free_ports
from tidegate.sources.kafka_properties import connection_config

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidegate.readers.kafka_config import KafkaConnectionConfig

PASSWORD = "hunter2"  # noqa: S105 - of a broker that lives for seconds
LISTENERS = {"SSL": "SSL", "SASL_PLAINTEXT": "SASL_PLAINTEXT", "PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT"}
LOGIN = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.plain.username": "me"}


class Secured(NamedTuple):
    plain: str
    ssl: str
    sasl: str
    topic: str
    certificate: str

    def rows(self, config: KafkaConnectionConfig) -> int:
        task = ReadTask((SplitRange(f"{self.topic}-0", 0, 200),))
        return sum(batch.num_rows for batch in KafkaSplitReader(config).read(task))


def keytool(*arguments: object) -> None:
    command = [str(Path(find_java()).with_name("keytool")), *map(str, arguments), "-storepass", PASSWORD]
    subprocess.run(command, check=True, capture_output=True)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("certificates")
    store, certificate = folder / "broker.p12", folder / "broker.pem"
    key = ("-alias", "broker", "-keystore", store)
    keytool("-genkeypair", *key, "-keyalg", "EC", "-dname", "CN=broker", "-ext", f"san=ip:{HOST}")
    keytool("-exportcert", *key, "-rfc", "-file", certificate)
    ssl, sasl = (f"{HOST}:{port}" for port in free_ports(2))
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    properties = {
        "listeners": f"SSL://{ssl},SASL_PLAINTEXT://{sasl}",
        "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in LISTENERS.items()),
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(store),
        "ssl.keystore.password": PASSWORD,
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{module} required user_me="{PASSWORD}";',
    }
    with KafkaServer(properties=properties) as kafka:
        lab = Lab(kafka)
        topic = lab.new_topic()
        lab.append(topic, encode([Record(value=b"%d" % n) for n in range(200)]))
        yield Secured(kafka.bootstrap_servers, ssl, sasl, topic, str(certificate))


def test_records_are_read_over_tls(secured: Secured) -> None:
    config = connection_config(secured.ssl, {"security.protocol": "SSL", "ssl.cafile": secured.certificate})
    assert secured.rows(config) == 200


def test_a_certificate_that_is_not_trusted_is_refused_at_once(secured: Secured) -> None:
    config = connection_config(secured.ssl, {"security.protocol": "SSL"})
    with KafkaClient(config) as client, pytest.raises(ConnectorError, match="certificate verify failed") as raised:
        client.partitions()
    assert str(raised.value).startswith(f"the Kafka broker {secured.ssl} refused the connection: ")
    assert str(raised.value).endswith("; look at kafka.ssl.cafile")


def test_records_are_read_after_a_login(secured: Secured) -> None:
    config = connection_config(secured.sasl, {**LOGIN, "sasl.plain.password": PASSWORD})
    assert secured.rows(config) == 200


def test_a_wrong_password_is_refused_at_once_and_not_shown(secured: Secured) -> None:
    config = connection_config(secured.sasl, {**LOGIN, "sasl.plain.password": "swordfish"})
    with KafkaClient(config) as client, pytest.raises(ConnectorError, match="Invalid username or password") as raised:
        client.partitions()
    assert str(raised.value).startswith(f"the Kafka broker {secured.sasl} refused the connection: ")
    assert "swordfish" not in str(raised.value)
    assert str(raised.value).endswith("; look at kafka.sasl.plain.username and kafka.sasl.plain.password")


def test_a_login_where_none_is_wanted_names_the_options_to_look_at(secured: Secured) -> None:
    config = connection_config(secured.plain, {**LOGIN, "sasl.plain.password": PASSWORD})
    with KafkaClient(config) as client, pytest.raises(ConnectorError, match="IllegalSaslState") as raised:
        client.partitions()
    assert str(raised.value).endswith("; look at kafka.security.protocol and kafka.sasl.mechanism")


@pytest.mark.parametrize("name", ["ssl.cafile", "ssl.certfile", "ssl.keyfile", "ssl.crlfile"])
def test_a_file_that_is_missing_is_named_with_its_option(secured: Secured, tmp_path: Path, name: str) -> None:
    needed = {"ssl.cafile": secured.certificate, "ssl.certfile": secured.certificate}
    missing = str(tmp_path / "missing.pem")
    config = connection_config(secured.ssl, {"security.protocol": "SSL", **needed, name: missing})
    with KafkaClient(config) as client, pytest.raises(OptionError) as raised:
        client.partitions()
    assert str(raised.value) == f"the option 'kafka.{name}' is '{missing}': No such file or directory"


def test_a_file_without_a_certificate_is_named_with_its_option(secured: Secured, tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("no certificate")
    config = connection_config(secured.ssl, {"security.protocol": "SSL", "ssl.cafile": str(tmp_path / "ca.pem")})
    with (
        KafkaClient(config) as client,
        pytest.raises(OptionError, match=r"^the option 'kafka.ssl.cafile' is .*in PEM$"),
    ):
        client.partitions()
