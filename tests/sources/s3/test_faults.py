"""An endpoint that fails between the source and the objects: all rows are read once, or one clear error comes."""

import http.client
import json
import random
import threading
from collections import Counter
from contextlib import closing, contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler

import pytest

from tests.support.objects.faulty_server import FaultyServer, serving
from tests.support.streams import HOUR, NOON
from tidegate import S3Source, WatermarkStrategy
from tidegate.alignment.budget import Budget
from tidegate.enumerators.planning.coordinator import SourceCoordinator
from tidegate.enumerators.planning.offset import INITIAL_OFFSET
from tidegate.enumerators.planning.settings import CoordinatorSettings
from tidegate.errors import DeadlineError

OBJECTS, ROWS = 24, 5
FAULTS = ("500", "503", "cut", "reset", "lost", "slow")
SLOW_S = 0.3
NOT_HANDED_ON = {"connection", "transfer-encoding", "content-length", "date", "server"}


class Faults(BaseHTTPRequestHandler):
    """Passes requests on to the real endpoint, except for a share of them.

    500, 503: the response has this status.  cut: half of the response's body comes.  reset: nothing comes.
    lost: nothing comes, but the endpoint has done the work.  slow: the response takes its time.
    """

    protocol_version = "HTTP/1.1"
    timeout = 5  # seconds for which an idle connection is kept
    disable_nagle_algorithm = True  # otherwise the body waits for 40 ms until the client has acknowledged the headers

    def _answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        fault = self.server.next_fault()
        if fault in {"500", "503"}:
            self.send_response(int(fault))
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        if fault == "reset":
            self.close_connection = True
            return
        if fault == "slow":
            self.server.over.wait(self.server.slow_s)
        status, headers, answer = self._ask(body)
        if fault == "lost":
            self.close_connection = True
            return
        self.send_response(status)
        for name, value in headers:
            if name.lower() not in NOT_HANDED_ON:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        if fault == "cut":
            answer = answer[: len(answer) // 2]
            self.close_connection = True
        self.wfile.write(answer)

    def _ask(self, body):
        # The signature covers the headers that came, Host among them.
        headers = {name: value for name, value in self.headers.items() if name.lower() != "expect"}
        with closing(http.client.HTTPConnection(self.server.real, timeout=60)) as connection:
            connection.request(self.command, self.path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.getheaders(), answer.read()

    do_GET = do_PUT = do_HEAD = do_DELETE = _answer  # noqa: N815 - the base class's names

    def log_message(self, *_):
        pass


class FaultyEndpoint(FaultyServer):
    """share, kinds: the share of failing requests, and their kinds; both may be changed at any time."""

    def __init__(self, real, share, kinds=FAULTS, seed=0, slow_s=SLOW_S):
        super().__init__(("127.0.0.1", 0), Faults)
        self.slow_s = slow_s
        self.real, self.share, self.kinds, self.dice = real.removeprefix("http://"), share, kinds, random.Random(seed)
        self.over, self.lock, self.sent = threading.Event(), threading.Lock(), Counter()

    @property
    def endpoint(self):
        return f"http://127.0.0.1:{self.server_address[1]}"

    def next_fault(self):
        with self.lock:
            fault = self.dice.choice(self.kinds) if self.dice.random() < self.share else None
            self.sent[fault] += 1
            return fault


@contextmanager
def faulty(bucket, share, kinds=FAULTS, seed=0, slow_s=SLOW_S):
    with serving(FaultyEndpoint(bucket.server.endpoint, share, kinds, seed, slow_s)) as proxy:
        try:
            yield proxy
        finally:
            proxy.over.set()


class Impatient(S3Source):
    """A source with a deadline of this number of seconds for every operation."""

    deadline_s: float = 60

    @property
    def connection(self):
        return replace(super().connection, deadline_s=self.deadline_s)


def soon(of):
    """Return the same source, which gives up soon; work that must succeed on a busy machine uses the patient one."""
    return of.model_copy(update={"deadline_s": 1})


def source(bucket, proxy, **fields):
    known = {"path": bucket.path, "event_time": "column:at", **bucket.connection, "endpoint": proxy.endpoint}
    return Impatient(**known, state_location=f"s3://{bucket.name}/state", **fields)


def fill(bucket, suffix):
    for number in range(OBJECTS):
        rows = [(number * ROWS + n, NOON + (number * 7 % OBJECTS) * HOUR + n) for n in range(ROWS)]
        bucket.put_rows(f"{number:02}.{suffix}", rows)


@contextmanager
def running(of):
    with closing(
        SourceCoordinator("s3", of.enumerator, CoordinatorSettings(WatermarkStrategy()), cores=2)
    ) as coordinator:
        coordinator.bound_run()
        yield coordinator


def ids(of, tasks):
    reader = of.reader(None)
    return [n for task in tasks for batch in reader.read(task) for n in batch.column("id").to_pylist()]


@pytest.mark.parametrize(("suffix", "seed"), [("parquet", 1), ("json", 2)])
def test_what_fails_now_and_then_is_read_once_over_several_runs(bucket, suffix, seed):
    fill(bucket, suffix)
    with faulty(bucket, 0.3, seed=seed) as proxy:
        settings = {"file_format": suffix, "event_time_unit": "ms" if suffix == "json" else None}
        of = source(bucket, proxy, **settings)
        of = of.model_copy(update={"columns": of.arrow_schema})
        rows, offset, more = [], INITIAL_OFFSET, True
        while more:
            with running(of) as run:
                for _ in range(2):
                    end = json.loads(json.dumps(run.latest_offset(offset, Budget(files=7))))
                    more = end != offset
                    rows += ids(of, run.tasks(offset, end))
                    offset = end
        assert sorted(rows) == list(range(OBJECTS * ROWS))
        assert {kind for kind in proxy.sent if kind} == set(FAULTS)


@pytest.mark.parametrize("kind", ["503", "reset", "cut"])
def test_listing_through_faults_that_never_end_is_one_error_after_the_deadline(bucket, kind):
    fill(bucket, "parquet")
    with faulty(bucket, 0.0, (kind,)) as proxy:
        of = source(bucket, proxy)
        of = of.model_copy(update={"columns": of.arrow_schema, "state_location": None})
        proxy.share = 1.0
        with running(soon(of)) as run, pytest.raises(DeadlineError, match=rf"{bucket.name}.* within 1 s"):
            run.latest_offset(INITIAL_OFFSET)


def test_reading_through_faults_that_never_end_is_one_error_after_the_deadline(bucket):
    fill(bucket, "parquet")
    with faulty(bucket, 0.0, ("503", "cut", "reset")) as proxy:
        of = source(bucket, proxy)
        of = of.model_copy(update={"columns": of.arrow_schema})
        with running(of) as run:
            tasks = run.tasks(INITIAL_OFFSET, run.latest_offset(INITIAL_OFFSET))
            proxy.share = 1.0
            with pytest.raises(DeadlineError, match=rf"s3://{bucket.name}/in/.* within 1 s"):
                ids(soon(of), tasks)
            proxy.share = 0.0
            assert sorted(ids(of, tasks)) == list(range(OBJECTS * ROWS))
