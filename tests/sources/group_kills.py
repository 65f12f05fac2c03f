"""Kills two applications of one alignment group by turns, and checks that each batch keeps within the drift.

python -m tests.sources.group_kills [--kills 6] [--seed 0] [--location s3://...]
"""

import argparse
import json
import random
import tempfile
import time
from bisect import bisect_right
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import SparkSession

from tests.sources.kills import HOURS_A_KILL, ROWS_AN_HOUR, kill_while_it_works, let_end, start_driver, written
from tests.support.streams import HOUR, NOON, even_times, every, new_topic
from tidegate.enumerators.planning.offset import Offset
from tidegate.servers import KafkaServer

DRIFT = HOUR

LEASE_S = 60.0  # the default of alignmentLease


class Batch(NamedTuple):
    """A batch in a checkpoint.

    at: the time when its offset was stored, in seconds since the epoch.
    last: the greatest event time that is read when it ends, in ms.
    low: the lowest event time that is then unread, in ms.
    """

    at: float
    last: float
    low: float


def batches(out, times):
    """Return the batches of a checkpoint, in order.

    times: the sorted event times of each partition, by its split.
    """
    logged = []
    for file in sorted(Path(out, "checkpoint", "offsets").glob("[0-9]*"), key=lambda path: int(path.name)):
        positions = Offset.from_json(json.loads(file.read_text().splitlines()[-1]), "kafka").progress.positions
        ends = {split: positions.get(split, 0) for split in times}
        last = max((times[split][end - 1] for split, end in ends.items() if end), default=float("-inf"))
        low = min((times[split][end] for split, end in ends.items() if end < len(times[split])), default=float("inf"))
        logged.append(Batch(file.stat().st_mtime, last, low))
    return logged


def breaches(mine, others, pauses):
    """Return the batches that pass the bound of the other application, and how many it did not hold back.

    pauses: the times when the other application was killed.
    """
    past, free = [], 0
    known = [batch.at for batch in others]
    for batch in mine:
        number = bisect_right(known, batch.at) - 1
        low = others[number].low if number >= 0 else float("-inf")
        since = max((killed for killed in pauses if killed <= batch.at), default=float("-inf"))
        is_back = number >= 0 and known[number] > since
        if not is_back and batch.at - since > LEASE_S:
            free += 1
        elif batch.last >= low + DRIFT:
            past.append(batch)
    return past, free


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=6)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--location", help="by default a folder on the disk")
    arguments = parser.parse_args()
    dice, hours = random.Random(arguments.seed), HOURS_A_KILL * arguments.kills
    with KafkaServer() as kafka, tempfile.TemporaryDirectory() as folder:
        times = [even_times(NOON + shift, NOON + hours * HOUR, hours * ROWS_AN_HOUR) for shift in (0, HOUR // 2)]
        topics = [new_topic(kafka, times_of_topic, times_of_topic) for times_of_topic in times]
        outs = [Path(folder, str(number)) for number in (0, 1)]
        for out in outs:
            out.mkdir()
        location = arguments.location or f"{folder}/alignment"

        def run(number):
            return start_driver(kafka.bootstrap_servers, topics[number], outs[number], "local[1]", location)

        drivers, killed = [run(0), run(1)], ([], [])
        for kill in range(arguments.kills):
            number = kill % 2
            if kill_while_it_works(drivers[number], outs[number], dice):
                killed[number].append(time.time())
            drivers[number] = run(number)
        for driver, out in zip(drivers, outs, strict=True):
            let_end(driver, out)
        spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
        for out in outs:
            assert written(spark, out) == every([hours * ROWS_AN_HOUR] * 2)
        logged = [
            batches(out, {f"{topic}-{partition}": sorted(of_topic) for partition in (0, 1)})
            for out, topic, of_topic in zip(outs, topics, times, strict=True)
        ]
        for mine, other in ((0, 1), (1, 0)):
            past, free = breaches(logged[mine], logged[other], killed[other])
            print(
                f"application {mine}: {len(logged[mine])} batches, {len(past)} past the bound, {free} while the other "
                f"was gone for more than {LEASE_S:g} s; killed {len(killed[mine])} times"
            )
            assert past == []


if __name__ == "__main__":
    main()
