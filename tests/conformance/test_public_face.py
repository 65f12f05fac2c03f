"""The names of ``tidegate.conformance``, which import nothing before they are used."""

import subprocess
import sys

import tidegate.conformance


def test_every_public_name_is_there():
    for name in tidegate.conformance.__all__:
        assert getattr(tidegate.conformance, name) is not None
        assert name in dir(tidegate.conformance)


def test_importing_it_imports_nothing_heavy():
    code = (
        "import sys, tidegate.conformance, tidegate.conformance.rules; "
        "sys.exit(str({'pyspark', 'pyarrow', 'pydantic', 'pytest', 'hypothesis'} & set(sys.modules) or ''))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, capture_output=True).stderr == b"\n"
