"""Imports every module of the installed tidegate, and says with which Python and PySpark."""

import importlib
import pkgutil
import platform

import pyspark

import tidegate

OPTIONAL = {"gssapi", "cryptography", "pytest", "hypothesis", "confluent_kafka", "grpc_tools"}  # of extras
imported = 0
for module in pkgutil.walk_packages(tidegate.__path__, "tidegate."):
    if module.name == "tidegate.__main__":
        continue
    try:
        importlib.import_module(module.name)
        imported += 1
    except ImportError as error:
        missing = error.__cause__ if isinstance(error.__cause__, ImportError) else error  # behind a sentence of ours
        if (missing.name or "").partition(".")[0] not in OPTIONAL:
            raise
print(f"Python {platform.python_version()}, PySpark {pyspark.__version__}: {imported} modules import")
