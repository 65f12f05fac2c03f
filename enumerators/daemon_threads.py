"""Runs functions in threads that do not keep the process from ending: requests may hang until their deadline."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from typing import Any, TypeVar

from typing_extensions import ParamSpec

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


class DaemonThreads(Executor):
    """A ThreadPoolExecutor with threads that do not keep the process from ending."""

    def __init__(self, most: int, name: str) -> None:
        self._most, self._name = most, name
        self._changed = threading.Condition()
        self._calls: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._threads: list[threading.Thread] = []
        self._idle = 0
        self._ended = False

    def submit(
        self, fn: Callable[_Arguments, _Result], /, *args: _Arguments.args, **kwargs: _Arguments.kwargs
    ) -> Future[_Result]:
        """Call a function in one of the threads."""
        future: Future[_Result] = Future()
        with self._changed:
            if self._ended:
                raise RuntimeError(f"the threads {self._name!r} have ended")
            self._calls.append((future, partial(fn, *args, **kwargs)))
            if len(self._calls) > self._idle and len(self._threads) < self._most:
                thread = threading.Thread(target=self._work, name=self._name, daemon=True)
                self._threads.append(thread)
                thread.start()
            self._changed.notify()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT002 - Executor's
        """End the threads after all submitted calls, or with ``cancel_futures`` after the running ones."""
        with self._changed:
            self._ended = True
            while cancel_futures and self._calls:
                self._calls.pop()[0].cancel()
            self._changed.notify_all()
        for thread in self._threads if wait else ():
            thread.join()

    def _work(self) -> None:
        while (taken := self._take()) is not None:
            future, call = taken
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(call())
                except BaseException as problem:  # noqa: BLE001 - asking for the result raises it
                    future.set_exception(problem)
            del taken, future, call

    def _take(self) -> tuple[Future[Any], Callable[[], Any]] | None:
        with self._changed:
            self._idle += 1
            self._changed.wait_for(lambda: self._calls or self._ended)
            self._idle -= 1
            return self._calls.popleft() if self._calls else None
