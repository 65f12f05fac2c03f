"""Some bad days of a cluster of three brokers; all of them, and for longer, by ``bad_days`` as a program."""

import gc

import pytest

from tests.enumerators.kafka import bad_days

pytestmark = pytest.mark.filterwarnings(  # kafka-python's producer leaves sockets open to brokers that were killed
    "ignore:Exception ignored in. <socket.socket:pytest.PytestUnraisableExceptionWarning"
)


@pytest.fixture(scope="module")
def cluster():
    with bad_days.start_cluster() as kafka:
        yield kafka


@pytest.fixture(autouse=True)
def _left_to_no_other_test():
    yield
    gc.collect()


@pytest.mark.parametrize(
    ("day", "aligned"),
    [
        (bad_days.partitions_are_reassigned, True),
        (bad_days.the_network_splits, False),
        (bad_days.a_disk_is_full, True),
    ],
)
def test_every_row_is_read_once_though(cluster, day, aligned):
    day(cluster, aligned=aligned)
