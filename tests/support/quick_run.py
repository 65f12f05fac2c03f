"""Runs that try less: a quick run without a Spark or a server, and fewer of Hypothesis's examples in most runs.

Whatever asks for Java in a quick run gets one that only tells this process, which then leaves out the test that it
runs.  So no test need be marked: it may ask by a fixture, in its body, or in a process that it starts.

A test says how many examples it takes to try a change of the code that it tests: ``pytest
--hypothesis-profile=explore`` tries as many, and other ones each time.  Each run of all tests tries the first ones.
"""

import os
import signal
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings

REASON = "it starts a Spark or a server"
JAVA = "#!/bin/sh\nkill -USR1 {process_id}\nexit 1\n"


class QuickRun:
    """A plugin of pytest that leaves out what starts a Spark or a server.

    fixtures: the names of those that start one.
    """

    def __init__(self, fixtures):
        self._fixtures, self._runs = frozenset(fixtures), False
        self._folder = tempfile.TemporaryDirectory(prefix="tidegate-without-java-")
        java = Path(self._folder.name, "bin", "java")
        java.parent.mkdir()
        java.write_text(JAVA.format(process_id=os.getpid()))
        java.chmod(0o755)
        os.environ["JAVA_HOME"] = self._folder.name
        os.environ["PATH"] = f"{java.parent}{os.pathsep}{os.environ['PATH']}"
        signal.signal(signal.SIGUSR1, self._asked)

    def pytest_collection_modifyitems(self, config, items):
        """Deselect the tests that are marked as slow."""
        slow = [item for item in items if item.get_closest_marker("slow")]
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if not item.get_closest_marker("slow")]

    @pytest.hookimpl(tryfirst=True)
    def pytest_fixture_setup(self, fixturedef):
        """Let such a fixture leave out the test that needs it."""
        if fixturedef.argname in self._fixtures:
            fixturedef.func = _leave_out  # a hook that raises itself leaves fixtures set up for ever

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self):
        """See _running."""
        return (yield from self._running())

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self):
        """See _running."""
        return (yield from self._running())

    def pytest_report_teststatus(self, report):
        """Count separately the tests that only a quick run leaves out."""
        is_mine = report.skipped and REASON in str(report.longrepr)
        return ("left out", "", "LEFT OUT") if is_mine else None

    def pytest_unconfigure(self):
        """Remove the Java."""
        self._folder.cleanup()

    def _running(self):
        """Leave out the test if it asks for Java while it runs."""
        self._runs = True
        try:
            return (yield)
        finally:
            self._runs = False

    def _asked(self, *_):
        if self._runs:
            self._runs = False  # what the test then cleans up may ask again
            _leave_out()


def _leave_out(**_):
    pytest.skip(REASON)


_SETTINGS = "_hypothesis_internal_use_settings"  # there is no public name for them


def share_of_examples(config):
    """Return how many times fewer examples this run tries than the tests ask for."""
    if config.getoption("--hypothesis-profile") == "explore":
        return 1
    return 10 if config.option.quick else 5


def try_fewer(share, items):
    """Let all tests try so many times fewer examples."""
    functions = [item for item in items if isinstance(item, pytest.Function)]
    machines = {item.cls for item in functions if item.cls is not None}
    for tests, name in [({item.function for item in functions}, _SETTINGS), (machines, "settings")]:
        for test in tests:
            own = getattr(test, name, None)
            if isinstance(own, settings):
                setattr(test, name, settings(own, max_examples=max(1, own.max_examples // share)))
