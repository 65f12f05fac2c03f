"""Packs an sdist anew, so that its bytes follow from its content alone: setuptools puts the time of the build into it.

    python scripts/same_sdist.py FILE.tar.gz

The times become SOURCE_DATE_EPOCH; the wheel needs no such step.
"""

import gzip
import io
import os
import sys
import tarfile
from pathlib import Path


def main() -> None:
    """Pack the file anew."""
    file, made = Path(sys.argv[1]), io.BytesIO()
    with (
        tarfile.open(file) as old,
        gzip.GzipFile(filename="", fileobj=made, mode="wb", mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as new,
    ):
        for entry in sorted(old.getmembers(), key=lambda entry: entry.name):
            entry.mtime = int(os.environ["SOURCE_DATE_EPOCH"])
            entry.uid = entry.gid = 0
            entry.uname = entry.gname = ""
            entry.mode = 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
            entry.pax_headers = {}
            new.addfile(entry, old.extractfile(entry) if entry.isfile() else None)
    file.write_bytes(made.getvalue())


if __name__ == "__main__":
    main()
