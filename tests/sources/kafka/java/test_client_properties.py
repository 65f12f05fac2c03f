"""Files of Kafka's Java clients work as they are; properties without effect here are logged once."""

import logging

import pytest

from tests.sources.test_time_options import SECRET
from tidegate import KafkaSource, OptionError
from tidegate.sources.kafka.java.properties import connection_config, without_effect
from tidegate.sources.kafka.java.table import NO_GROUP

MODULES = "org.apache.kafka.common.security"
IN_CLOUD = f"""
# Required connection configs for producer, consumer, and admin
bootstrap.servers=broker.cloud:9092
security.protocol=SASL_SSL
sasl.jaas.config={MODULES}.plain.PlainLoginModule required username='KEY' password='{SECRET}';
sasl.mechanism=PLAIN
client.dns.lookup=use_all_dns_ips
session.timeout.ms=45000
acks=all
key.deserializer=org.apache.kafka.common.serialization.StringDeserializer
enable.auto.commit=false
group.id=reports
interceptor.classes=com.example.Interceptor
schema.registry.url=https://registry.cloud
basic.auth.user.info=key:{SECRET}
"""
ENDPOINT = {"sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.token.endpoint.url": "https://tokens"}


def config_of(**properties):
    return connection_config("here", {name.replace("__", "."): value for name, value in properties.items()})


def tls_of(**properties):
    return config_of(security__protocol="SSL", **properties).properties


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "client.properties"
    path.write_text(IN_CLOUD)
    return path


def test_a_file_of_java_gives_servers_and_login_and_options_come_before_it(file):
    source = KafkaSource.from_options({"kafkaProperties": str(file), "subscribe": "orders"})
    config = connection_config(source.bootstrap_servers, source.kafka)
    assert config.bootstrap_servers == "broker.cloud:9092"
    assert config.properties == {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "KEY",
        "sasl_plain_password": SECRET,
    }
    options = {"kafka.bootstrap.servers": "here", "kafka.security.protocol": "SASL_PLAINTEXT"}
    source = KafkaSource.from_options({"kafkaProperties": str(file), "subscribe": "orders", **options})
    assert (source.bootstrap_servers, source.kafka["security.protocol"]) == ("here", "SASL_PLAINTEXT")
    in_python = KafkaSource(kafka_properties=file, subscribe=["orders"])
    assert in_python.bootstrap_servers == "broker.cloud:9092"
    assert SECRET not in repr(source) + str(in_python)


def test_what_a_file_of_java_says_in_vain_is_told_in_one_warning_without_values(file, caplog):
    source = KafkaSource.from_options({"kafkaProperties": str(file), "subscribe": "orders"})
    with caplog.at_level(logging.WARNING):
        source.enumerator(None)
    (record,) = caplog.records
    assert [part.split(" (")[0] for part in record.getMessage().split(": ")[1].split("), ")] == [
        *("kafka.client.dns.lookup", "kafka.session.timeout.ms", "kafka.acks", "kafka.key.deserializer"),
        *("kafka.enable.auto.commit", "kafka.group.id", "kafka.interceptor.classes", "kafka.schema.registry.url"),
        "kafka.basic.auth.user.info",
    ]
    assert SECRET not in record.getMessage()


def test_a_file_that_is_missing_is_named():
    with pytest.raises(OptionError, match=r"^kafkaProperties is no-such-file, which cannot be read: No such file"):
        KafkaSource.from_options({"kafkaProperties": "no-such-file", "subscribe": "orders"})


@pytest.mark.parametrize(
    ("mechanism", "module", "understood"),
    [
        (
            "SCRAM-SHA-512",
            'scram.ScramLoginModule required username="a,b=c" password="p\\"q" tokenauth="true";',
            {"sasl_plain_username": "a,b=c", "sasl_plain_password": 'p"q', "sasl_delegation_token": True},
        ),
        (
            "GSSAPI",
            'Krb5LoginModule required useKeyTab=true storeKey=true keyTab="/k" principal="me@REALM" serviceName="kfk";',
            {"sasl_kerberos_keytab": "/k", "sasl_kerberos_principal": "me@REALM", "sasl_kerberos_service_name": "kfk"},
        ),
        (None, "Krb5LoginModule required useTicketCache=true;", {"sasl_mechanism": "GSSAPI"}),
        (
            "OAUTHBEARER",
            'oauthbearer.OAuthBearerLoginModule required clientId="me" clientSecret="s" scope="kafka";',
            {"sasl_oauth_options": {"clientId": "me", "clientSecret": "s", "scope": "kafka"}},
        ),
    ],
)
def test_every_login_module_is_understood(mechanism, module, understood):
    properties = {"security.protocol": "SASL_SSL", "sasl.jaas.config": f"{MODULES}.{module}"}
    properties |= {} if mechanism is None else {"sasl.mechanism": mechanism}
    if mechanism == "OAUTHBEARER":
        properties["sasl.oauthbearer.token.endpoint.url"] = "https://tokens"
    given = connection_config("here", properties).properties
    assert understood.items() <= given.items()
    assert given["sasl_mechanism"] == (mechanism or "GSSAPI")
    assert "sasl_jaas_config" not in given


def test_tls_is_set_by_the_names_of_java():
    assert tls_of(ssl__endpoint__identification__algorithm="")["ssl_endpoint_identification_algorithm"] == ""
    assert tls_of(ssl__endpoint__identification__algorithm="HTTPS")["ssl_endpoint_identification_algorithm"] == "https"
    assert tls_of(ssl__enabled__protocols="TLSv1.3,TLSv1.2,TLSv1.1,TLSv1")["ssl_enabled_protocols"] == (
        "TLSv1.2",
        "TLSv1.3",
    )
    assert tls_of(ssl__protocol="TLS", ssl__enabled__protocols="TLSv1.3")["ssl_enabled_protocols"] == ("TLSv1.3",)


LOGIN = {"sasl.plain.username": "me", "sasl.plain.password": SECRET}
MECHANISMS = "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, GSSAPI or OAUTHBEARER"
OF_LOGINS = [
    ({"sasl.jaas.config": SECRET}, "'kafka.sasl.jaas.config' is malformed: expected the class of a login module"),
    (
        {"sasl.jaas.config": "a.PlainLoginModule required;", "sasl.mechanism": "SCRAM-SHA-256"},
        "names PlainLoginModule, which is for PLAIN",
    ),
    (
        ENDPOINT,
        "'kafka.sasl.oauthbearer.client.credentials.client.id' is missing, and clientId in",
    ),
    (
        {"sasl.jaas.config": f"a.OAuthBearerLoginModule required ssl.truststore.password={SECRET};", **ENDPOINT},
        "has 'ssl.truststore.password' for the token endpoint, which is checked by the system's CAs",
    ),
    (
        {"sasl.mechanism": "OAUTHBEARER", "sasl.login.callback.handler.class": "com.example.Handler"},
        "is malformed: expected a Python function that returns a token, as package:function",
    ),
    (
        {"sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.token.endpoint.url": f"https://me:{SECRET}@tokens"},
        "a login goes into kafka.sasl.oauthbearer.client.credentials.*",
    ),
    (
        {"sasl.client.callback.handler.class": "my_company.tokens:signed"},
        "here, set kafka.sasl.login.callback.handler.class to a Python",
    ),
    (LOGIN, f"'kafka.security.protocol' is SASL_SSL, but 'kafka.sasl.mechanism' is missing: expected {MECHANISMS}"),
    (
        {"sasl.mechanism": "plain"},
        f"'kafka.sasl.mechanism' is malformed: expected {MECHANISMS}; did you mean 'PLAIN'?",
    ),
    ({"sasl.mechanism": "OAUTHBEARER"}, "is OAUTHBEARER, but there is no origin of tokens: set"),
    (
        {"sasl.mechanism": "PLAIN"},
        "is PLAIN, but 'kafka.sasl.plain.username' and 'kafka.sasl.plain.password' are missing",
    ),
    (
        {**LOGIN, "security.protocol": "SASL_PLAINTEXT", "ssl.truststore.location": "ca.pem"},
        "'kafka.ssl.truststore.location' is given, but 'kafka.security.protocol' is SASL_PLAINTEXT, which does not",
    ),
]
OF_TLS = [
    ({"ssl.endpoint.identification.algorithm": "http"}, "is malformed: expected https, or nothing"),
    ({"ssl.enabled.protocols": "TLSv1.1,TLSv1"}, "expected TLSv1.2 or TLSv1.3: older versions are not safe"),
    ({"ssl.truststore.certificates": "a", "ssl.truststore.location": "b"}, "exclude each other; set one of them"),
    ({"ssl.keystore.password": SECRET}, "'kafka.ssl.keystore.location' is missing: it opens that file"),
    ({"ssl.keystore.key": SECRET}, "'kafka.ssl.keystore.certificate.chain' is missing: a key is of use"),
]


@pytest.mark.parametrize(
    ("properties", "sentence"),
    [
        *(({"security.protocol": "SASL_SSL", **properties}, sentence) for properties, sentence in OF_LOGINS),
        *(({"security.protocol": "SSL", **properties}, sentence) for properties, sentence in OF_TLS),
        ({"bootstrap.servers": "here:9092"}, "'kafka.bootstrap.servers' is given twice"),
        ({"sasl.mechanism": "PLAIN"}, "'kafka.security.protocol' is missing: expected SASL_SSL or SASL_PLAINTEXT"),
        (
            {"ssl.truststore.location": "ca.pem"},
            "'kafka.ssl.truststore.location' is given, but 'kafka.security.protocol' is missing: expected SSL",
        ),
    ],
)
def test_what_cannot_be_is_told_in_one_sentence_before_any_connection(properties, sentence):
    with pytest.raises(OptionError, match=r"^the option") as raised:
        connection_config("here", properties)
    assert sentence in str(raised.value)
    assert SECRET not in str(raised.value)


def test_pauses_and_times_are_set_by_the_names_of_java():
    config = config_of(
        client__rack="east",
        metadata__max__age__ms="5000",
        retry__backoff__ms="0",
        retry__backoff__max__ms="1000",
    )
    assert (config.client_rack, config.metadata_max_age_s) == ("east", 5)
    assert config.retry_pauses_s == (0.001, 1)
    assert config_of(retry__backoff__ms="5000").retry_pauses_s == (5, 5)
    assert config_of() == config_of(group__id="g")
    assert without_effect({"group.id": "g", "client.rack": "east"}) == [f"kafka.group.id ({NO_GROUP})"]
