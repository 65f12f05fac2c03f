import tempfile

import pytest


@pytest.fixture(autouse=True)
def no_other_notes(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
