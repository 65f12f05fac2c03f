"""A broker with TLS, logins and rights, for the tests of both."""

import pytest

from tests.readers.kafka.wire.security_matrix import place


@pytest.fixture(scope="session")
def at(tmp_path_factory):
    with place(tmp_path_factory.mktemp("security")) as made:
        yield made
