"""Every module imports only from floors below its own (docs/architecture.md)."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FLOORS = {"alignment": 1, "readers": 2, "enumerators": 3, "sources": 4, "conformance": 5, "jobs": 6}
SIDE_ROOMS = {"servers"}  # may use errors only, and be used by jobs, tests and benchmarks only
NEVER_SPARK = {"alignment", "readers", "enumerators", "servers"}


def imported(path):
    """Return the dotted names of all modules that a file imports, wherever in it."""
    names = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path} has a relative import"
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return names


def violations(root):
    """Return every import that does not look down."""
    found = []
    for room in [*FLOORS, *SIDE_ROOMS]:
        for path in sorted((root / room).rglob("*.py")):
            for name in imported(path):
                top, _, rest = name.partition(".")
                used = rest.partition(".")[0]
                forbidden = (
                    (top == "pyspark" and room in NEVER_SPARK)
                    or (top in {*FLOORS, *SIDE_ROOMS, "tests", "benchmarks", "examples"})
                    or (top == "tidegate" and not may_use(room, used))
                )
                if forbidden:
                    found.append(f"{path.relative_to(root)} imports {name}")
    return found


def may_use(room, used):
    if used in {room, "errors", "frame"}:
        return True
    if room == "jobs":
        return True
    if room in SIDE_ROOMS or used not in FLOORS:
        return False
    return FLOORS[used] < FLOORS[room]


def test_no_module_imports_upwards():
    assert violations(ROOT) == []


@pytest.mark.parametrize(
    ("room", "line"),
    [
        ("alignment", "from tidegate.readers.contract import ReadTask"),
        ("alignment", "import pyspark.sql"),
        ("readers", "from tidegate.enumerators.planning import coordinator"),
        ("enumerators", "from pyspark.sql import SparkSession"),
        ("enumerators", "def f():\n    from tidegate.sources.kafka.source import KafkaSource"),
        ("sources", "from tidegate.servers import KafkaServer"),
        ("sources", "from tidegate import KafkaSource"),
        ("servers", "import tidegate.alignment.planner"),
        ("readers", "from alignment.splits import Head"),
    ],
)
def test_an_import_that_looks_up_is_found(tmp_path, room, line):
    (tmp_path / room).mkdir()
    (tmp_path / room / "module.py").write_text(f"from __future__ import annotations\n{line}\n")
    assert len(violations(tmp_path)) == 1


def test_every_room_of_the_package_is_known_here():
    linked = {path.name for path in (ROOT / "src/tidegate").iterdir() if path.is_symlink()}
    assert linked == {*FLOORS, *SIDE_ROOMS}
