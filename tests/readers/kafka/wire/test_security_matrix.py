"""Every row of the matrix of TLS, logins and rights has the outcome that the documentation shows."""

import pytest

from tests.readers.kafka.wire import security_matrix as matrix
from tests.support.servers.tokens import CLIENT_SECRET, STORE_PASSWORD


def test_a_file_of_java_is_all_that_a_query_of_spark_needs(at, spark, tmp_path):
    login = next(case for case in matrix.cases(at) if case.title == "SCRAM-SHA-512").properties
    store = {"ssl.truststore.location": str(at.trusted["JKS"]), "ssl.truststore.password": STORE_PASSWORD}
    servers = at.kafka.servers_of("SASL_SSL")
    settings = {"bootstrap.servers": servers, "security.protocol": "SASL_SSL", **login, **store, "group.id": "reports"}
    file = tmp_path / "client.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    reader = spark.read.format("tidegate_kafka").option("kafkaProperties", str(file))
    assert reader.load(subscribe=matrix.READABLE).count() == matrix.ROWS
    with pytest.raises(Exception, match=r"TopicAuthorizationFailedError .* Describe and Read on the topic") as raised:
        reader.load(subscribe=matrix.HIDDEN).count()
    assert matrix.PASSWORD not in str(raised.value)


def test_every_row_of_the_matrix_comes_out_as_documented(at):
    outcomes = [matrix.outcome(at, case) for case in matrix.cases(at)]
    for one in outcomes:
        refusal = one.case.refusal or ""
        assert one.rows == (0 if refusal else matrix.ROWS), one
        assert refusal in one.sentence, one
        assert not any(secret in one.sentence for secret in (matrix.PASSWORD, matrix.WRONG, CLIENT_SECRET)), one
        assert "\n" not in one.sentence, one
    documented = matrix.PAGE.read_text().partition(matrix.BEGIN)[2].partition(matrix.END)[0]
    assert documented.strip() == matrix.table(outcomes).strip(), "python -m tests.readers.kafka.wire.security_matrix"
