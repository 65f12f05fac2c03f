"""Effects of a call outside of Python are noticed, and those inside are not."""

import importlib
import os
import subprocess
import sys

import pytest

from tidegate.conformance.lab.resources import Resources, acts


def test_a_module_that_is_imported_first_is_no_act_although_python_keeps_its_bytecode(tmp_path, monkeypatch):
    (tmp_path / "imported_late.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.delitem(sys.modules, "imported_late", raising=False)
    with acts() as done:
        importlib.import_module("imported_late")
    assert list(tmp_path.glob("__pycache__/imported_late.*"))
    assert done == []


def test_a_file_that_is_written_is_an_act_and_one_that_is_read_is_none(tmp_path):
    with acts() as done:
        (tmp_path / "file").write_text("")
    assert done == ["writes a file (open)"]
    with acts() as done:
        (tmp_path / "file").read_text()
    assert done == []


def test_links_and_commands_of_a_shell_are_acts(tmp_path):
    with acts() as done:
        (tmp_path / "link").symlink_to(tmp_path)
        os.system("true")  # noqa: S605, S607 - the command is fixed
    assert done == ["links a file (os.symlink)", "starts a process (os.system)"]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux shows children")
def test_a_child_is_held_by_its_command_line():
    before = Resources.now()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE):
        grown = Resources.now().beyond(before)
    assert "1 more of the kind 'child process'" in grown
    assert "input()" in grown
    assert Resources.now().beyond(before) is None
