"""Imports every module of the installed tidegate, and says with which Python and PySpark."""

import glob
import importlib
import platform
from pathlib import Path

import pyspark

import tidegate

OPTIONAL = {"gssapi", "cryptography", "pytest", "hypothesis", "grpc_tools"}  # of extras
imported = 0
root = Path(tidegate.__file__).parent
for path in sorted(glob.glob("**/*.py", root_dir=root, recursive=True)):  # noqa: PTH207 - rglob leaves out links
    module = ".".join(["tidegate", *Path(path).with_suffix("").parts]).removesuffix(".__init__")
    if module == "tidegate.__main__":
        continue
    try:
        importlib.import_module(module)
        imported += 1
    except ImportError as error:
        missing = error.__cause__ if isinstance(error.__cause__, ImportError) else error  # behind a sentence of ours
        if (missing.name or "").partition(".")[0] not in OPTIONAL:
            raise
print(f"Python {platform.python_version()}, PySpark {pyspark.__version__}: {imported} modules import")
