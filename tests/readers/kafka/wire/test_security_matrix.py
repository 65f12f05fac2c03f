"""Every row of the matrix of TLS, logins and rights has the outcome that the documentation shows."""

import pytest

from tests.readers.kafka.wire.security_matrix import (
    BEGIN,
    END,
    HIDDEN,
    PAGE,
    PASSWORD,
    READABLE,
    ROWS,
    WRONG,
    cases,
    outcome,
    table,
)
from tests.support.servers.tokens import CLIENT_SECRET
from tests.support.stores import STORE_PASSWORD


def test_a_file_of_java_is_all_that_a_query_of_spark_needs(at, spark, tmp_path):
    login = next(case for case in cases(at) if case.title == "SCRAM-SHA-512").properties
    store = {"ssl.truststore.location": str(at.trusted["JKS"]), "ssl.truststore.password": STORE_PASSWORD}
    servers = at.kafka.servers_of("SASL_SSL")
    settings = {"bootstrap.servers": servers, "security.protocol": "SASL_SSL", **login, **store, "group.id": "reports"}
    file = tmp_path / "client.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    reader = spark.read.format("tidegate_kafka").option("kafkaProperties", str(file))
    assert reader.load(subscribe=READABLE).count() == ROWS
    with pytest.raises(Exception, match=r"TopicAuthorizationFailedError .* Describe and Read on the topic") as raised:
        reader.load(subscribe=HIDDEN).count()
    assert PASSWORD not in str(raised.value)


def test_every_row_of_the_matrix_comes_out_as_documented(at):
    outcomes = [outcome(at, case) for case in cases(at)]
    for one in outcomes:
        assert (one.rows, one.case.refusal or "") == (0 if one.case.refusal else ROWS, one.case.refusal or ""), one
        assert (one.case.refusal or "") in one.sentence, one
        assert not any(secret in one.sentence for secret in (PASSWORD, WRONG, CLIENT_SECRET)), one
        assert "\n" not in one.sentence, one
    documented = PAGE.read_text().partition(BEGIN)[2].partition(END)[0]
    assert documented.strip() == table(outcomes).strip(), "python -m tests.readers.kafka.wire.security_matrix"
