import logging
import threading

from tests.conformance.memory.reference import MemoryEnumerator, MemoryReader, MemorySource
from tests.conformance.mutants.leaks import (
    KEPT,
    Undoing,
    a_file,
    a_lookup,
    a_thread,
    a_written_file,
    leaking,
    opening,
)
from tests.conformance.mutants.mutant import Mutant, sinful
from tests.conformance.references import CommittingEnumerator
from tidegate.errors import ConnectorError, DataLossError

LOG = logging.getLogger("mutant")


class LeaksWhenGivenUp(MemoryReader):
    def read(self, task):
        close = a_file()
        KEPT.append(close)
        yield from super().read(task)
        KEPT.remove(close)
        close()


class KeepsAClient(MemorySource):
    def enumerator(self, state):
        self.__dict__["lock"] = threading.Lock()
        return super().enumerator(state)


class LetsErrorsThrough(MemoryReader):
    def _read(self, client, wanted):
        client.ask("records", wanted.split_id, wanted.start, wanted.end)
        return super()._read(client, wanted)


class LogsItsAddress(MemoryEnumerator):
    def discover(self):
        LOG.debug("connecting to %s", self._source.address)
        return super().discover()


class NamesItsAddressInErrors(MemoryReader):
    def read(self, task):
        try:
            yield from super().read(task)
        except DataLossError as error:
            raise ConnectorError("reading failed") from RuntimeError(f"at {self._source.address}: {error}")


class FreesTooMuch(CommittingEnumerator):
    def commit(self, positions):
        for split in positions:
            self._client.ask("trim", split, 1)


MUTANTS = [
    Mutant(
        "a constructor looks up a host",
        "LIFE-1",
        ("an enumerator acts outside of it: socket.getaddrinfo",),
        opening(a_lookup),
    ),
    Mutant(
        "a constructor writes a file", "LIFE-1", ("an enumerator acts outside of it: open",), opening(a_written_file)
    ),
    Mutant("a thread leaked", "LIFE-2", ("more of the kind 'thread'",), leaking(a_thread)),
    Mutant(
        "a reader that is given up leaks",
        "LIFE-2",
        ("more of the kind 'file'",),
        sinful(reader=LeaksWhenGivenUp, harness=Undoing),
    ),
    Mutant(
        "a source keeps a value that cannot be pickled",
        "READ-11",
        ("cannot be pickled", "lock"),
        sinful(source=KeepsAClient),
    ),
    Mutant("errors of others come through", "LIFE-11", ("KeyError",), sinful(reader=LetsErrorsThrough)),
    Mutant("a secret in the log", "LIFE-12", ("a secret is in a log",), sinful(enumerator=LogsItsAddress)),
    Mutant(
        "a secret in the error",
        "LIFE-12",
        ("a secret is in the error of reading",),
        sinful(reader=NamesItsAddressInErrors),
    ),
    Mutant("commit frees too much", "LIFE-16", ("commit number 1",), sinful(enumerator=FreesTooMuch)),
]
