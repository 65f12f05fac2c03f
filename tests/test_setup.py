"""``scripts/setup`` runs while others use ``.venv``: it takes nothing away that they need."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
VENV = ROOT / ".venv"
STAMP, PROGRAM = VENV / "tidegate.stamp", VENV / "bin" / "tidegate"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not PROGRAM.exists(), reason="this checkout has no .venv of scripts/setup"),
]


def looks_at_the_program():
    """Run the script; return what each look at the program found meanwhile."""
    found = []
    with subprocess.Popen([ROOT / "scripts" / "setup"]) as setup:
        while setup.poll() is None:
            found.append(PROGRAM.exists())
    assert setup.returncode == 0
    return found


def test_the_program_is_there_all_the_time_while_the_environment_is_brought_up_to_date():
    # After a change of pyproject.toml uv replaces tidegate, and its program is missing for some milliseconds.
    looks_at_the_program()
    STAMP.unlink()
    looks = looks_at_the_program()
    assert STAMP.exists()
    assert looks.count(False) == 0, f"{len(looks)} looks"


def test_an_environment_that_is_up_to_date_is_not_touched():
    def touched():
        return {
            path: path.stat().st_mtime_ns for path in (STAMP, PROGRAM, *VENV.glob("lib/python*/site-packages/*.pth"))
        }

    before = touched()
    looks_at_the_program()
    assert touched() == before
