"""Fixtures for enumerators: an S3 endpoint, and folders."""

import tempfile
import uuid
from contextlib import ExitStack
from functools import partial

import pytest

from tests.enumerators.s3 import queries as s3_queries
from tests.enumerators.s3 import queue_queries
from tests.enumerators.s3.objects import Store
from tidegate.enumerators.s3 import cleaning as source_cleaning
from tidegate.enumerators.s3.discovery import rounds
from tidegate.enumerators.s3.notifications import queue as notification_queue
from tidegate.enumerators.s3.notifications.queue import NotificationQueue


@pytest.fixture(scope="session")
def server(s3):
    """The S3 endpoint, with a bucket ``state``."""
    s3.create_bucket("state")
    return s3


@pytest.fixture(scope="session")
def config(server, s3_config):
    return s3_config


@pytest.fixture(params=["disk", "bucket"])
def location(request, tmp_path):
    """A state location of the test's own, on a disk and in the bucket ``state``."""
    # pytest gives the name of a folder that is gone to another test.
    return str(tmp_path / "a state") if request.param == "disk" else f"s3://state/a {uuid.uuid4().hex}+%41/"


@pytest.fixture
def own_temporary_folder(tmp_path, monkeypatch):
    """Put the notes that the sources of a process share into the test's own folder."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


@pytest.fixture(autouse=True)
def _patience(monkeypatch):
    """Wait for a round even if it takes long on a busy machine, unless a test says otherwise."""
    for module in (rounds, source_cleaning, notification_queue):
        monkeypatch.setattr(module, "_PATIENCE_S", 60)


@pytest.fixture
def store():
    """A bucket in memory."""
    return Store()


@pytest.fixture(params=[False, True], ids=["alone", "in a group"])
def holds_group(request):
    """Whether the source of a query is in a group, so that it keeps the last manifest that was read."""
    return request.param


@pytest.fixture
def query(store, tmp_path, holds_group):
    """Make queries over the bucket in memory, which share a state location."""
    known = {"holds_group": holds_group}
    with ExitStack() as made:
        yield lambda **given: made.enter_context(s3_queries.Query(store, tmp_path / "state", **{**known, **given}))


@pytest.fixture
def no_waiting(monkeypatch):
    """A queue without messages answers at once."""
    monkeypatch.setattr(notification_queue, "_WAIT_S", 0)


@pytest.fixture
def queue_query(store, queue, tmp_path, holds_group):
    """Make queries over the bucket in memory that learn of objects by the queue."""
    known = {"holds_group": holds_group}
    receiving, state = partial(NotificationQueue, queue_queries.CONFIG, queue.url), tmp_path / "state"
    with ExitStack() as made:
        yield lambda **given: made.enter_context(queue_queries.Query(store, receiving, state, **{**known, **given}))
