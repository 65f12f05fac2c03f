"""Writes reports to files: JSON for machines, one HTML page for people."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tidegate.conformance.report.json import reports_told
from tidegate.conformance.report.page import report_page
from tidegate.conformance.verdicts import Report
from tidegate.errors import OptionError


def _json(reports: Sequence[Report]) -> str:
    return json.dumps(reports_told(reports), indent=1, ensure_ascii=False) + "\n"


_FORMATS: Mapping[str, Callable[[Sequence[Report]], str]] = {".html": report_page, ".json": _json}


def report_file(option: str, text: str) -> Path:
    """Return the path of a report, and make its folder, before rules take their minutes.

    Raises OptionError, which names the option, for a name of an unknown format and for a folder that cannot be written
    to.
    """
    path = Path(text)
    if path.suffix.lower() not in _FORMATS:
        raise OptionError(f"{option} is {text!r}, but a file that ends in {' or '.join(_FORMATS)} is expected")
    return writable(option, path)


def writable(option: str, path: Path) -> Path:
    """Return the path of a file, and make its folder.

    Raises OptionError, which names the option, if it cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OptionError(f"{option} is {str(path)!r}, whose folder cannot be made: {error}") from None
    if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise OptionError(f"{option} is {str(path)!r}, which cannot be written")
    return path


def write_reports(path: Path, reports: Sequence[Report]) -> None:
    """Write reports to a file, in the format of its name."""
    path.write_text(_FORMATS[path.suffix.lower()](reports), encoding="utf-8")
