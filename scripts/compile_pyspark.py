"""Adds compiled modules to the pyspark.zip of the PySpark that this Python imports; once is enough.

    python scripts/compile_pyspark.py

Spark's Python processes import PySpark from that archive.  It holds sources only, so each process compiles them
anew, for half a second: workers once, but the planner of every streaming query, too.
"""

import tempfile
import warnings
import zipfile
from pathlib import Path
from py_compile import PycInvalidationMode, PyCompileError
from py_compile import compile as compile_module

import pyspark


def main() -> None:
    """Replace the archive, unless it has compiled modules."""
    archive = Path(pyspark.__file__).parent / "python" / "lib" / "pyspark.zip"
    with zipfile.ZipFile(archive) as plain:
        files = {entry.filename: plain.read(entry) for entry in plain.infolist() if not entry.is_dir()}
    if any(name.endswith(".pyc") for name in files):
        return
    with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
        made = Path(folder, archive.name)
        with zipfile.ZipFile(made, "w") as both:
            for name, data in files.items():
                both.writestr(name, data)
                compiled = _compiled(name, data, Path(folder)) if name.endswith(".py") else None
                if compiled is not None:
                    both.writestr(f"{name}c", compiled)
        made.replace(archive)  # never in place: installers share files between environments


def _compiled(name: str, source: bytes, folder: Path) -> bytes | None:
    file, target = folder / "source", folder / "compiled"
    file.write_bytes(source)
    try:
        # By no time: that of a file in an archive is rounded.
        compile_module(str(file), str(target), name, doraise=True, invalidation_mode=PycInvalidationMode.UNCHECKED_HASH)
    except PyCompileError:  # a template, say
        return None
    return target.read_bytes()


if __name__ == "__main__":
    warnings.simplefilter("ignore", SyntaxWarning)
    main()
