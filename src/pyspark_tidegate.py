"""Makes Spark's worker that looks for Python data sources end quietly.

Spark starts that worker with the first Python data source of a session.  It imports every top-level module whose name
begins with ``pyspark_``, and otherwise nothing of tidegate.  An idle minute later Java closes its connection, and
PySpark's daemon would print a BrokenPipeError.  This module has no data source: ``tidegate.register`` registers them.
"""

from contextlib import suppress

with suppress(Exception):  # an error would end Spark's search for all data sources
    from tidegate.spark_private import end_quietly

    end_quietly()
