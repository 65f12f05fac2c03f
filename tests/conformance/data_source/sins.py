"""Parts of data sources with one sin each; Spark's workers import this module."""

import threading
import time

import pyarrow as pa

from tests.conformance.data_source.orders import (
    ArrowOrdersReader,
    Lines,
    OrdersReader,
    OrdersSource,
    OrdersStreamReader,
    SimpleOrdersReader,
    count,
    lines,
)

# PySpark names the methods that are overridden here.
# ruff: noqa: N802


class LockedReader(OrdersReader):
    def __init__(self, path):
        super().__init__(path)
        self.lock = threading.Lock()


class ForgetsCase(OrdersSource):
    def schema(self):
        return f"number bigint not null, {dict(self.options).get('customerColumn', 'name')} string"


class NeverNull(OrdersSource):
    def schema(self):
        return "number bigint not null, customer string not null"


class InfersTypes(ArrowOrdersReader):
    def read(self, partition):
        for number, customer in lines(self.path, partition.start, partition.end):
            yield pa.RecordBatch.from_pylist([{"number": number, "customer": customer}])


class LeavesOutTheLast(OrdersReader):
    def partitions(self):
        return [Lines(0, count(self.path) - 1)]


class TellsTheTime(OrdersReader):
    def read(self, partition):
        for number, _ in super().read(partition):
            yield number, str(time.time_ns())


class ForgetsCapitals(OrdersReader):
    def read(self, partition):
        for row in lines(self.path, partition.start, partition.end):
            if all(row[1] is not None and row[1].lower() == value.lower() for value in self.filters):
                yield row


class NoPartitions(OrdersReader):
    def partitions(self):
        return [part for part in super().partitions() if part.start < part.end]


class LeavesOutTheStart(OrdersStreamReader):
    def partitions(self, start, end):
        return super().partitions({"line": start["line"] + 1} if start["line"] else start, end)


class ReadsToThePresent(OrdersStreamReader):
    def partitions(self, start, end):
        return [Lines(start["line"], None)]


class GoesRound(OrdersStreamReader):
    def latestOffset(self, start, limit):
        return {"line": count(self.path) // 7 % 2}

    def partitions(self, start, end):
        return []


class KeepsTuples(OrdersStreamReader):
    def latestOffset(self, start, limit):
        end = super().latestOffset(start, limit)
        return {**end, "range": (0, end["line"])}


class IgnoresTheEnd(SimpleOrdersReader):
    def readBetweenOffsets(self, start, end):
        return iter([*lines(self.path, start["line"])])


class TakesAway(OrdersStreamReader):
    def read(self, partition):
        taken = [*lines(self.path, partition.start, partition.end)]
        with open(self.path, encoding="utf-8") as file:  # noqa: PTH123
            left = file.read().splitlines()
        left[partition.start : partition.end] = ["null"] * (partition.end - partition.start)
        with open(self.path, "w", encoding="utf-8") as file:  # noqa: PTH123
            file.writelines(f"{line}\n" for line in left)
        yield from taken


class NeedsTheFirst(OrdersStreamReader):
    def initialOffset(self):
        return {"line": next(lines(self.path))[0]}


class LimitsEachPartition(OrdersStreamReader):
    def latestOffset(self, start, limit):
        return {"line": min(count(self.path), start["line"] + 2 * getattr(limit, "max_rows", 1_000))}


class MissesItsTarget(OrdersStreamReader):
    def prepareForTriggerAvailableNow(self):
        pass


class LeavesThreads(OrdersStreamReader):
    def latestOffset(self, start, limit):
        threading.Thread(target=threading.Event().wait, daemon=True).start()
        return super().latestOffset(start, limit)


class PlansEmptyRanges(OrdersStreamReader):
    def partitions(self, start, end):
        return [Lines(start["line"], end["line"])]
