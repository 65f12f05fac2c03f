"""Lets Spark's planner processes start in half the time: PyArrow imports pandas, which takes a second, if it is there.

Python imports this module when it begins, in each process that has this folder on its PYTHONPATH.  Each query of the
tests starts a planner, and no planner needs pandas.
"""

import sys
from importlib.abc import MetaPathFinder


class WithoutPandas(MetaPathFinder):
    """Finds everything but pandas."""

    def find_spec(self, name, path=None, target=None):
        if name == "pandas":
            raise ModuleNotFoundError("planners of tests do without pandas", name=name)


if "pyspark.sql.streaming.python_streaming_source_runner" in sys.orig_argv:
    sys.meta_path.insert(0, WithoutPandas())
