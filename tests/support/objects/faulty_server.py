"""An endpoint that hands requests on to the real one, and fails as a test tells it to."""

import http.client
import threading
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tidegate.readers.s3.store import ObjectStore


class Faults(BaseHTTPRequestHandler):
    """Hands requests on to the real endpoint, after the faults that the test put into the server's list."""

    def do_GET(self):
        self.server.requests += 1
        self.server.signed.append(self.headers.get("Authorization", ""))
        fault = self.server.faults.pop(0) if self.server.faults else "none"
        if isinstance(fault, int):
            self.send_response(fault)
            self.end_headers()
        elif fault == "silent":
            self.server.over.wait(60)
        elif fault != "reset":
            self._hand_on(fault)

    def _hand_on(self, fault):
        real = http.client.HTTPConnection(self.server.real.removeprefix("http://"))
        try:
            real.request("GET", self.path, headers=dict(self.headers))
            answer = real.getresponse()
            body = answer.read()
        finally:
            real.close()
        self.send_response(200 if fault == "no length" else answer.status)
        left_out = {"date", "server", "connection", "transfer-encoding"}
        if fault == "no length":
            left_out |= {"content-length", "content-range"}
        for name, value in answer.getheaders():
            if name.lower() not in left_out:
                self.send_header(name, value)
        self.end_headers()
        if fault == "cut":
            self.wfile.write(body[: len(body) // 2])
        elif fault == "trickle":
            for index in range(len(body)):
                if self.server.over.wait(0.01):
                    return
                self.wfile.write(body[index : index + 1])
        else:
            self.wfile.write(body)

    def log_message(self, *_):
        pass


class FaultyServer(ThreadingHTTPServer):
    daemon_threads = True
    requests = 0

    def handle_error(self, *_):
        pass  # the client hung up


@contextmanager
def serving(server):
    with server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def faulty(server, *faults):
    with FaultyServer(("127.0.0.1", 0), Faults) as proxy:
        proxy.real, proxy.faults, proxy.over, proxy.signed = server.endpoint, list(faults), threading.Event(), []
        with serving(proxy):
            try:
                yield proxy
            finally:
                proxy.over.set()


def through(proxy, config, deadline_s=20):
    endpoint = f"http://127.0.0.1:{proxy.server_address[1]}"
    return ObjectStore(replace(config, endpoint=endpoint, deadline_s=deadline_s), "data")
