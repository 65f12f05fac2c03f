import sys
from contextlib import nullcontext

import pytest

from tidegate.cli import main
from tidegate.jobs.backfill import run as backfill_run


@pytest.fixture
def tidegate(monkeypatch, capsys):
    """Run the command line in this process; return its exit code, its stdout and its stderr."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["tidegate", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            main()
        output, errors = capsys.readouterr()
        return end.value.code, output, errors

    return run


@pytest.fixture
def goes_on(tidegate, spark, monkeypatch):
    """Let a back-fill go on in the session of all tests, then once more; return the output of both."""

    def run(*command):
        with monkeypatch.context() as patch:
            patch.setattr(backfill_run, "spark_session", lambda *_: nullcontext(spark))
            code, output, errors = tidegate(*command)
            assert code == 0, errors
            assert "100 %" in errors
            code, again, errors = tidegate(*command)
            assert code == 0, errors
        return output, again

    return run
