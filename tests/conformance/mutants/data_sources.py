"""Data sources of PySpark with one sin each, and the rule that must find it."""

from tests.conformance.data_source import sins
from tests.conformance.data_source.orders import OrdersHarness, OrdersSource, SimpleOrdersSource
from tests.conformance.references import Mutant


def sinful(source=OrdersSource, **parts):
    """Return a harness of the correct source with another part in it."""

    class_ = type(source.__name__, (source,), parts) if parts else source
    return type("SinfulHarness", (OrdersHarness,), {"class_": class_})


MUTANTS = [
    Mutant(sin, killer, words, harness)
    for sin, killer, words, harness in (
        ("a lock in a reader", "SOURCE-1", "the reader cannot be pickled: TypeError", sinful(batch=sins.LockedReader)),
        ("dict(options)", "SOURCE-2", "with Spark's, the schema is", sinful(sins.ForgetsCase)),
        ("null where it cannot be", "SOURCE-3", "customer is null, but cannot be", sinful(sins.NeverNull)),
        ("types by the batch", "SOURCE-3", "batches of one task have several schemas", sinful(batch=sins.InfersTypes)),
        (
            "the last row left out",
            "BATCH-1",
            "the first query: rows",
            sinful(batch=sins.LeavesOutTheLast),
        ),
        ("the present time", "BATCH-2", "two actions on one DataFrame", sinful(batch=sins.TellsTheTime)),
        ("a filter without case", "BATCH-3", "customer = 'cUSTOMER 1'", sinful(batch=sins.ForgetsCapitals)),
        (
            "no partition",
            "BATCH-4",
            "has no attribute 'start'",
            sinful(batch=sins.NoPartitions),
        ),
        (
            "a start left out",
            "STREAM-1",
            "all up to run 2: rows",
            sinful(stream=sins.LeavesOutTheStart),
        ),
        ("an end ignored", "STREAM-2", "two actions on batch 0", sinful(stream=sins.ReadsToThePresent)),
        ("offsets that go round", "STREAM-3", "an offset comes again after another", sinful(stream=sins.GoesRound)),
        ("a tuple in an offset", "STREAM-3", "JSON does not give back the offset", sinful(stream=sins.KeepsTuples)),
        (
            "an end ignored in a restart",
            "STREAM-4",
            "batch 0, before and after a restart",
            sinful(SimpleOrdersSource, simple=sins.IgnoresTheEnd),
        ),
        (
            "a destructive read",
            "STREAM-5",
            "the second lacks",
            sinful(stream=sins.TakesAway),
        ),
        ("an offset of the first row", "STREAM-6", "StopIteration", sinful(stream=sins.NeedsTheFirst)),
        ("a limit for each partition", "STREAM-7", "though the limit is 2", sinful(stream=sins.LimitsEachPartition)),
        ("a target that moves", "STREAM-8", "one for each row that is added", sinful(stream=sins.MissesItsTarget)),
        ("a thread after stop()", "STREAM-9", "more of the kind 'thread'", sinful(stream=sins.LeavesThreads)),
        ("partitions of nothing", "STREAM-10", "between {'line': 0} and itself", sinful(stream=sins.PlansEmptyRanges)),
    )
]
