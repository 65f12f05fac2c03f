"""A server of one port, with a thread for each client."""

import threading
from abc import ABC, abstractmethod
from contextlib import suppress
from socketserver import BaseRequestHandler, ThreadingTCPServer


class Listening(ThreadingTCPServer, ABC):
    """Listens at ``address`` while it is used as a context manager; at its end it waits for all clients."""

    request_queue_size = 128

    def __init__(self):
        super().__init__(("127.0.0.1", 0), BaseRequestHandler)
        self.address = f"127.0.0.1:{self.server_address[1]}"

    @abstractmethod
    def serve(self, client):
        """Serve one client, in a thread of its own; an OSError ends it."""

    @abstractmethod
    def stop(self):
        """Let every ``serve`` end soon; no client comes any more."""

    def finish_request(self, client, _):
        with suppress(OSError):
            self.serve(client)

    def __enter__(self):
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}).start()
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.stop()
        self.server_close()
