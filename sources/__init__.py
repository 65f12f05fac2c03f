"""Sources that users register, and the one bridge to PySpark's data source API."""

import re
from importlib.machinery import PathFinder

from tidegate.errors import InstallationError

_OLDEST = (4, 2)


def _require_spark() -> None:
    """Raise InstallationError, in one sentence, for a PySpark without the API that the modules below import.

    PySpark is not imported, which takes half a second: ``tidegate preview`` goes without it, and needs none.
    """
    spark = PathFinder.find_spec("pyspark")
    found = spark and PathFinder.find_spec("pyspark.version", spark.submodule_search_locations)
    read = getattr(found and found.loader, "get_source", None)  # a file, or a member of Spark's pyspark.zip
    version = re.search(r"__version__\D*((\d+)\.(\d+)[^\"']*)", read("pyspark.version") or "") if read else None
    if spark is not None and version is not None and (int(version[2]), int(version[3])) < _OLDEST:
        raise InstallationError(
            f"tidegate needs PySpark {_OLDEST[0]}.{_OLDEST[1]} or newer, but this Python has {version[1]} (in "
            f"{spark.origin})"
        )


_require_spark()
