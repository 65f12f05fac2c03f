import os
import pickle
import tempfile
import time
from pathlib import Path

from tests.conformance.memory.reference import MemoryEnumerator, MemoryReader, MemorySource
from tests.conformance.memory.store import MemoryStore, StoreClient
from tests.conformance.mutants.mutant import Mutant, sinful
from tidegate.errors import ConnectorError


class WithClient(MemorySource):
    """Uses a client of another class, which gives up at once."""

    def client(self):
        return self._client_class(self.address, 0.1)


class GivesUpAtOnce(MemorySource):
    def client(self):
        return StoreClient(self.address, 0.01)


class WaitsForEver(MemorySource):
    def client(self):
        return StoreClient(self.address, 3_600)


class RaisesWhatItGets(StoreClient):
    def ask(self, method, *arguments):
        try:
            return super().ask(method, *arguments)
        except ConnectorError as error:
            raise OSError(str(error)) from None


class SaysTheKey(StoreClient):
    def ask(self, method, *arguments):
        try:
            return super().ask(method, *arguments)
        except ConnectorError as error:
            raise ConnectorError(f"{error}; the key is {self._key}") from None


class AsksAgainWhenItIsSlow(MemoryReader):
    def read(self, task):
        begun = time.monotonic()
        batches = list(super().read(task))
        yield from batches * (2 if time.monotonic() - begun > 1 else 1)


class BelievesEverything(StoreClient):
    def _attempt(self, method, arguments):
        store = MemoryStore.of_this_process(self.name)
        return pickle.loads(store.answer(method, arguments)[4:])  # noqa: S301 - the test made the bytes


class TakesAnErrorForTheEnd(MemoryReader):
    def read(self, task):
        try:
            yield from super().read(task)
        except ConnectorError:
            return


class BeginsAnewAfterAnError(MemoryReader):
    def read(self, task):
        while True:
            try:
                yield from super().read(task)
            except ConnectorError:
                continue
            return


class LocksOthersOut(MemoryEnumerator):
    @property
    def lock(self):
        return Path(tempfile.gettempdir(), f"tidegate-mutant-{self._client.name}")

    def discover(self):
        if self.lock.exists() and int(self.lock.read_text()) != os.getpid():
            raise ConnectorError("another query reads this store")
        self.lock.write_text(str(os.getpid()))
        return super().discover()

    def close(self):
        self.lock.unlink(missing_ok=True)
        super().close()


def with_client(client):
    class Source(WithClient):
        @property
        def _client_class(self):
            return client

    return sinful(source=Source)


MUTANTS = [
    Mutant("there is no deadline", "FAULT-1", ("planning did not end within 1.35 s",), sinful(source=WaitsForEver)),
    Mutant("an error shows the key", "FAULT-1", ("planning", "shows a secret"), with_client(SaysTheKey)),
    Mutant(
        "a request that is repeated because it is slow is answered twice",
        "FAULT-2",
        ("read during the fault and after it", "they differ"),
        sinful(reader=AsksAgainWhenItIsSlow),
        patience_s=3.0,
    ),
    Mutant("no checksum is checked", "FAULT-3", ("raises",), with_client(BelievesEverything)),
    Mutant(
        "an error is taken for the end",
        "FAULT-4",
        ("read during the fault and after it", "(nothing)"),
        sinful(reader=TakesAnErrorForTheEnd),
    ),
    Mutant(
        "a reader begins anew after an error",
        "FAULT-5",
        ("more than once",),
        sinful(reader=BeginsAnewAfterAnError, source=GivesUpAtOnce),
    ),
    Mutant("an error comes with its whole stack trace", "FAULT-6", ("has a traceback",), with_client(RaisesWhatItGets)),
    Mutant(
        "only close() lets the next run in",
        "FAULT-7",
        ("the stream ends with an error", "another query reads this store"),
        sinful(enumerator=LocksOthersOut),
    ),
]
