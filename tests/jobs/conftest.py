import sys

import pytest

from tidegate.cli import main


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
