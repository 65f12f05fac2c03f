"""A process that has imported what planners import, and forks when one is wanted.

python forks.py DESCRIPTOR serves a Unix socket that listens already, until its standard input ends.

Java starts a planner as ever.  That process stands in for a fork, which has its standard streams, its environment and
its paths: it hands on SIGTERM, and ends with the exit code of the fork when the fork has ended; and the fork dies with
it.
"""

import gc
import os
import pickle
import runpy
import select
import signal
import socket
import sys
import threading
import time
from importlib import import_module

from sitecustomize import PID_BYTES, PLANNER, STARTED, WithoutPandas

CONNECTORS = ("tidegate.sources.kafka.source", "tidegate.sources.s3.source")


def prepare(*modules):
    """Import the connectors and other modules, for forks that come."""
    for module in (*CONNECTORS, *modules):
        import_module(module)
    gc.freeze()


def serve(descriptor):
    """Fork for each process that asks, until standard input ends."""
    prepare(*STARTED)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks how they ended
    with socket.socket(fileno=descriptor) as server:
        while sys.stdin not in (ready := select.select([server, sys.stdin], [], [])[0]):
            asking, _ = ready[0].accept()
            if os.fork() == 0:
                server.close()
                become(asking)
                return
            asking.close()


def become(asking):
    """Be what the process at the other end of a connection was started for."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _, descriptors, _, _ = socket.recv_fds(asking, 1, 3)
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    with asking.makefile("rb") as question:
        module, folder, paths, environment = pickle.load(question)  # noqa: S301 - from a process of our own
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    os.chdir(folder)
    sys.path[:] = [folder, *paths]
    if module == PLANNER:
        sys.meta_path.insert(0, WithoutPandas())
    asking.sendall(os.getpid().to_bytes(PID_BYTES, "big"))
    threading.Thread(target=die_with, args=[asking], daemon=True).start()
    code = 1
    try:
        del sys.modules[module]  # it runs once more, as a program
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        raise
    finally:
        asking.sendall(bytes([code % 256]))


def die_with(asking):
    """Die with the process that asked for this one."""
    asking.recv(1)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    serve(int(sys.argv[1]))
