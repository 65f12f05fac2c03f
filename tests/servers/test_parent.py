"""However the process that started a server ends, nothing of the server is left."""

import os
import signal
import subprocess
import sys

import pytest

from tests.servers.test_process import is_free, is_gone
from tests.support.command import PATIENCE_S, await_that

SERVE = """
import sys
from tidegate.servers import {0}
with {0}() as server:
    print(server.{1}, server.pids[1], flush=True)
    sys.stdin.read()
"""
ADDRESS = {"KafkaServer": "bootstrap_servers", "S3Server": "endpoint"}


# The sandbox removes what a server leaves, so one test of a server with several processes is enough.
@pytest.mark.parametrize(
    ("server", "sig"),
    [
        ("KafkaServer", signal.SIGKILL),
        ("S3Server", signal.SIGINT),
    ],
)
def test_nothing_is_left_when_the_parent_is_ended_by(server, sig, tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", SERVE.format(server, ADDRESS[server])],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    ) as parent:
        address, pid = parent.stdout.readline().removeprefix("http://").split()
        assert not is_free(address)
        assert list(tmp_path.iterdir())
        parent.send_signal(sig)
        parent.stdin.close()  # Python sees a signal that comes just before a read only when the read returns
        assert parent.wait(PATIENCE_S) == -sig
        await_that(lambda: is_gone(int(pid)))
        await_that(lambda: is_free(address))
        await_that(lambda: not list(tmp_path.iterdir()))
