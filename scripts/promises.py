"""Shows which tests prove which promise of docs/reference/guarantees.md, and how long they take.

    scripts/test --junitxml build/tests.xml
    python scripts/promises.py build/tests.xml

The last lines are the slowest modules of tests that prove no promise by name: there the next cut begins.
"""

import re
import sys
from collections import defaultdict
from pathlib import Path
from xml.etree import ElementTree as ET

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference" / "guarantees.md"
SHOWN = 30
TEST = re.compile(r"`(tests/[\w/]+\.py)((?:::\w+)*)`")


def main() -> None:
    """Print a line for each promise, the slowest first, and then the modules that no promise names."""
    seconds = _seconds(Path(sys.argv[1]))
    named: set[str] = set()
    lines = []
    for row in PAGE.read_text(encoding="utf-8").splitlines():
        tests = [(path[:-3].replace("/", ".") + name.replace("::", ".")) for path, name in TEST.findall(row)]
        if tests:
            named.update(tests)
            takes = sum(spent for test, spent in seconds.items() if any(_proves(test, name) for name in tests))
            lines.append((takes, row.strip("| ").partition(" | ")[0], tests))
    print("seconds  promise, tests")
    for takes, promise, tests in sorted(lines, reverse=True):
        print(f"{takes:7.1f}  {promise}\n         {', '.join(tests)}")
    others: defaultdict[str, float] = defaultdict(float)
    for test, spent in seconds.items():
        if not any(_proves(test, name) for name in named):
            others[test.rpartition(".")[0]] += spent
    print(f"\n{sum(others.values()):.0f} s of {sum(seconds.values()):.0f} s are of tests that no promise names:")
    for module, spent in sorted(others.items(), key=lambda item: -item[1])[:SHOWN]:
        print(f"{spent:7.1f}  {module}")


def _seconds(report: Path) -> dict[str, float]:
    """Return the seconds of each test by its dotted name, all of its parameters together."""
    seconds: defaultdict[str, float] = defaultdict(float)
    for case in ET.parse(report).iter("testcase"):  # noqa: S314 - pytest has written it
        name = (case.get("name") or "").partition("[")[0]
        seconds[f"{case.get('classname')}.{name}"] += float(case.get("time") or 0)
    return seconds


def _proves(test: str, name: str) -> bool:
    return test == name or test.startswith(f"{name}.")


if __name__ == "__main__":
    main()
