"""Objects that are added while drivers are killed, and what was written of them."""

import random

from tests.support.command import meanwhile
from tests.support.streams import HOUR, NOON

ROWS = 10  # an object
AT_FIRST, BETWEEN_RUNS, MOST_MEANWHILE = 40, 5, 60
PAUSE_S = 0.1


class Feeder:
    """Adds objects of ROWS rows.  Ids count up over all objects; event times are random within half a day."""

    def __init__(self, bucket, seed):
        self.bucket, self.dice, self.objects = bucket, random.Random(seed), 0

    @property
    def ids(self):
        return list(range(self.objects * ROWS))

    def add(self, objects):
        for _ in range(objects):
            hour = NOON + self.dice.randrange(12) * HOUR
            rows = [(self.objects * ROWS + n, hour + self.dice.randrange(HOUR)) for n in range(ROWS)]
            key = f"{self.dice.randrange(1 << 32):08x}-{self.objects}.parquet"
            self.bucket.put_rows(key, rows)
            self.objects += 1

    def adding(self):
        """Add objects all the time, up to a number that a slow machine can read."""

        def add(over):
            for _ in range(MOST_MEANWHILE):
                if over.wait(PAUSE_S):
                    return
                self.add(1)

        return meanwhile(add)


def written(spark, out):
    """Return all ids in the output, in order."""
    return sorted(row["id"] for row in spark.read.parquet(f"{out}/data").select("id").collect())
