"""Files that commands write."""

import pytest

from tidegate.errors import OptionError
from tidegate.jobs.files import writable


def test_what_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OptionError, match=r"^--html is '.*', where nothing can be written: "):
        writable("--html", tmp_path / "file" / "page.html")
    (tmp_path / "folder.html").mkdir()
    with pytest.raises(OptionError, match=r"^--html is '.*folder.html', which cannot be written$"):
        writable("--html", tmp_path / "folder.html")
    assert writable("--html", tmp_path / "new" / "page.html").parent.is_dir()
