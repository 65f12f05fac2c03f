"""The names of ``tidegate.conformance``, which import nothing before they are used."""

import subprocess
import sys

import pytest

import tidegate.conformance
from tidegate.conformance.memory.reference import MemoryHarness
from tidegate.conformance.rules import all_rules


def test_every_public_name_is_there():
    for name in tidegate.conformance.__all__:
        assert getattr(tidegate.conformance, name) is not None
        assert name in dir(tidegate.conformance)


def test_every_check_is_a_function_that_is_called_with_a_harness():
    for rule in all_rules():
        assert getattr(tidegate.conformance, rule.test.__name__) is rule.check
    tidegate.conformance.check_rows_come_once_and_in_order(MemoryHarness)


def test_what_there_is_not_is_an_attribute_error():
    for name in ("check_nothing", "Nothing"):
        with pytest.raises(AttributeError, match=f"module 'tidegate.conformance' has no attribute '{name}'"):
            getattr(tidegate.conformance, name)


def test_importing_it_imports_nothing_heavy():
    code = (
        "import sys, tidegate.conformance, tidegate.conformance.rules; "
        "sys.exit(str({'pyspark', 'pyarrow', 'pydantic', 'pytest', 'hypothesis'} & set(sys.modules) or ''))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, capture_output=True).stderr == b"\n"
