"""A driver to be killed with queries of several others: a Spark for each of them would take far longer.

python -m tests.sources.drivers MASTER SETTINGS QUERIES

SETTINGS: Spark's, as JSON.  QUERIES: as JSON, a list of a module, the folder of its output, and the arguments of its
``start`` by name.
"""

import json
import sys
from importlib import import_module

from tests.sources.killable import await_end, driver_session


def main(master, settings, queries):
    spark = driver_session(master, json.loads(settings))
    named = json.loads(queries)
    for query, out in [(import_module(name).start(spark, out=out, **given), out) for name, out, given in named]:
        await_end(query, out)
    # As many programs do, it ends without stopping its session.


if __name__ == "__main__":
    main(*sys.argv[1:])
