"""The page about writing a connector shows the code of the example, and the names on the page exist."""

import re
from pathlib import Path

import pytest

import tidegate.conformance
import tidegate.connector
from tidegate.conformance import Ability

ROOT = Path(__file__).parents[2]
CONNECTORS_PAGE = (ROOT / "docs/write-a-connector.md").read_text()
EXAMPLE = "\n".join(path.read_text() for path in sorted((ROOT / "examples/custom_connector").glob("*.py")))
CODE = re.findall(r"```python\n(.*?)```", CONNECTORS_PAGE, re.DOTALL)
PEEKS_BY_READING = (ROOT / "tests/enumerators/test_probing.py").read_text()
USE = "tidegate.register(spark)"


@pytest.mark.parametrize(
    "block",
    [block for block in CODE if USE not in block],
    ids=lambda block: block.strip().split("\n")[0],
)
def test_code_of_the_page_stands_in_the_example(block):
    assert block in EXAMPLE or block in PEEKS_BY_READING


@pytest.mark.parametrize("protocol", sorted(set(re.findall(r"`(Supports\w+)`", CONNECTORS_PAGE))))
def test_every_protocol_of_the_page_can_be_imported(protocol):
    assert hasattr(tidegate.connector, protocol)


@pytest.mark.parametrize("ability", Ability, ids=lambda ability: ability.name)
def test_every_ability_stands_in_the_page_of_the_kit(ability):
    assert f"| `{ability.name}` | {ability.value} |" in (ROOT / "docs/conformance.md").read_text()
