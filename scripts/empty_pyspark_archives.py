"""Empties the archives of the PySpark that this Python imports; once is enough.

    python scripts/empty_pyspark_archives.py

Spark's Python processes look into pyspark.zip and py4j's archive before the installed packages.  The archives hold no
compiled modules, and Python reads their directories again for each of their packages (zipimport's invalidate_caches).
Empty archives let the processes import the installed packages, which are the same.
"""

import tempfile
import zipfile
from pathlib import Path

import pyspark


def main() -> None:
    """Replace each archive, unless it is empty."""
    for archive in Path(pyspark.__file__).parent.glob("python/lib/*.zip"):
        with zipfile.ZipFile(archive) as full:
            is_empty = not full.namelist()
        if not is_empty:
            with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
                made = Path(folder, archive.name)
                zipfile.ZipFile(made, "w").close()
                made.replace(archive)  # never in place: installers share files between environments


if __name__ == "__main__":
    main()
