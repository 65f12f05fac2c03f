"""Effects of a call outside of Python are noticed, and those inside are not."""

import importlib
import os
import sys

from tidegate.conformance.lab.resources import acts


def test_a_module_that_is_imported_first_is_no_act_although_python_keeps_its_bytecode(tmp_path, monkeypatch):
    (tmp_path / "imported_late.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.delitem(sys.modules, "imported_late", raising=False)
    with acts() as done:
        importlib.import_module("imported_late")
    assert list(tmp_path.glob("__pycache__/imported_late.*"))
    assert done == []


def test_links_and_commands_of_a_shell_are_acts(tmp_path):
    with acts() as done:
        (tmp_path / "link").symlink_to(tmp_path)
        os.system("true")  # noqa: S605, S607 - the command is fixed
    assert done == ["os.symlink", "os.system"]
