"""FAULT: streams of Spark whose other side fails, and drivers that are killed."""

from __future__ import annotations

from tidegate.conformance.abilities import Ability
from tidegate.conformance.declaring import rule
from tidegate.conformance.lab.explain import ordered_difference
from tidegate.conformance.lab.faults import cut_off
from tidegate.conformance.lab.lab import BEGIN_MS, SECOND_MS, Lab
from tidegate.conformance.lab.spark.driver import another_driver, keys_of_files, stream_until_held
from tidegate.conformance.lab.spark.stream import SparkStream, folder
from tidegate.conformance.rules import Tier

__all__ = ["check_a_killed_driver_costs_no_rows", "check_a_stream_fails_with_a_sentence_and_goes_on_afterwards"]

_HELD = 1


@rule(
    "FAULT-6",
    "a stream fails with a sentence, and goes on afterwards",
    tier=Tier.FAULTS,
    purpose="People who are woken at night by a failed query need the reason, and a restart that just works.",
    tested="A stream has read rows; more come; its next run starts while every connection breaks, or "
    "the other side is killed, and one after that.",
    passes="The run that fails says why in one sentence, without a traceback of Python and without a secret. The "
    "next run delivers every row that is left, once.",
    look_at=(
        "which errors of the client become ConnectorError: others come with a traceback",
        "texts of the client that are passed on, and hold its configuration",
    ),
    witness=("a run that failed",),
    source="tidegate/errors.py: a message is one sentence, and never holds a secret",
)
def check_a_stream_fails_with_a_sentence_and_goes_on_afterwards(lab: Lab) -> None:
    """Let a stream fail, and start it again."""
    kind = cut_off(lab)
    split = lab.split(BEGIN_MS, BEGIN_MS + SECOND_MS)
    stream = SparkStream(lab, lab.source())
    stream.run()
    more = split if lab.can(Ability.GROWING_SPLITS) else lab.split()
    more.append_each(BEGIN_MS + 2 * SECOND_MS, BEGIN_MS + 3 * SECOND_MS)
    lab.tell(f"from now on: {kind.value}")
    with lab.harness.fault(kind):
        said = stream.failure()
    lab.tell("from now on all is well")
    if said is not None:
        lab.saw("a run that failed")
        lab.expect("Traceback" not in said, f"the error of the stream has a traceback:\n{said}")
        secrets = sum(secret in said for secret in lab.harness.secrets)
        lab.expect(not secrets, "the error of the stream shows a secret")
    stream.run()
    lab.compare(stream.delivered, in_order=False)


@rule(
    "FAULT-7",
    "a killed driver costs no rows",
    tier=Tier.FAULTS,
    purpose="Clusters and broken machines kill drivers, at any moment.",
    tested="A driver in a process of its own streams into a file for each batch. It is killed (SIGKILL, with all "
    "that it started) when the second file is written and not committed. Another driver continues from its "
    "checkpoint.",
    passes="The second batch is read again with the same rows, and the files hold every row once.",
    look_at=(
        "resources that only close() releases, such as locks: a killed planner never calls it",
        "state of the enumerator outside of its snapshot",
        "batches that hold other rows when they are read again",
    ),
    witness=("a batch that was read again",),
    source="SplitEnumerator.close: perhaps never (SIGKILL); SplitReader.read",
)
def check_a_killed_driver_costs_no_rows(lab: Lab) -> None:
    """Kill a driver, and continue."""
    split = lab.split(*(BEGIN_MS + n * 10 * SECOND_MS for n in range(4)))
    source = lab.source(maxDrift="15 seconds")
    checkpoint, files = folder(lab), folder(lab)
    arguments = (lab.harness.key_column, str(checkpoint), str(files), _HELD)
    with another_driver(lab) as driver:
        driver.call(stream_until_held, source, *arguments)
        lab.tell("kill the driver")
        driver.kill()
    before = keys_of_files(files)
    lab.expect(_HELD in before, f"with a max drift of 15 s there is no second batch, only {before}")
    more = split if lab.can(Ability.GROWING_SPLITS) else lab.split()
    more.append_each(BEGIN_MS + 40 * SECOND_MS)
    stream = SparkStream(lab, source, checkpoint)
    for batch in stream.run():
        if batch.number == _HELD:
            lab.saw("a batch that was read again")
            wrong = ordered_difference("the second batch, before and after", sorted(before[_HELD]), sorted(batch.keys))
            if wrong is not None:
                raise lab.fail(wrong)
    lab.compare([*before[0], *stream.delivered], in_order=False)
