"""Sources that users register, and the one bridge to PySpark's data source API."""

import re
from importlib.machinery import PathFinder
from importlib.util import find_spec

from tidegate.errors import InstallationError

_OLDEST = (4, 2)


def _require_spark() -> None:
    """Raise InstallationError, in one sentence, for a PySpark without the API that the modules below import.

    PySpark is not imported, which takes half a second: ``tidegate watch`` goes without it.
    """
    spark = find_spec("pyspark")
    found = spark and PathFinder.find_spec("pyspark.version", spark.submodule_search_locations)
    read = getattr(found and found.loader, "get_source", None)  # a file, or a member of Spark's pyspark.zip
    version = re.search(r"__version__\D*((\d+)\.(\d+)[^\"']*)", read("pyspark.version") or "") if read else None
    needed = f"tidegate needs PySpark {_OLDEST[0]}.{_OLDEST[1]} or newer, but"
    if spark is None:
        raise InstallationError(f"{needed} this Python has none")
    if version is not None and (int(version[2]), int(version[3])) < _OLDEST:
        raise InstallationError(f"{needed} this Python has {version[1]} (in {spark.origin})")


_require_spark()
