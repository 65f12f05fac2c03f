"""A server that answers with given bytes: at once, a byte at a time, without an end, or not at all."""

import threading
from contextlib import nullcontext

from tests.support.servers.listening import Listening

SLOW_S = 0.05  # between bytes: a deadline that is shorter than a whole answer passes on any machine


class Answering(Listening):
    """Answers connections, and closes them.

    answers: those of the first connections; all others get the last one.  None: silence.
    slowly: a byte at a time.
    again: the answer is sent again and again.
    asked: what each connection sent first.
    """

    def __init__(self, *answers, slowly=False, again=False, tls=None):
        super().__init__()
        self._answers, self._slowly, self._again, self._tls = answers, slowly, again, tls
        self._over = threading.Event()
        self.asked = []

    def stop(self):
        self._over.set()

    def serve(self, client):
        with self._tls.wrap_socket(client, server_side=True) if self._tls else nullcontext(client) as side:
            answer = self._answers[min(len(self.asked), len(self._answers) - 1)]
            self.asked.append(side.recv(1 << 16))
            if answer is None:
                self._over.wait()
                return
            for part in [answer[at : at + 1] for at in range(len(answer))] if self._slowly else [answer]:
                side.sendall(part)
                if self._slowly and self._over.wait(SLOW_S):
                    return
            while self._again and not self._over.wait(0.01):
                side.sendall(answer)
