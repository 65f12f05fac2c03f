"""FAULT: streams whose other side fails, and drivers that are killed."""

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
    purpose="A failed query wakes people at night. They need the reason, and a restart that just works.",
    tested="A stream has read rows, and more come. Its next run starts while every connection breaks, or the other "
    "side is killed. One more run follows after that.",
    passes="A run that fails says why in one sentence, without a Python traceback and without a secret. The next run "
    "delivers every remaining row once.",
    look_at=(
        "errors of the client that do not become ConnectorError: they come with a traceback",
        "messages of the client that hold its configuration",
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
    purpose="Clusters and broken machines kill drivers at any moment.",
    tested="A driver in its own process runs a stream, which writes a file for each batch. After the second file, but "
    "before the commit, the kit kills the driver and its child processes with SIGKILL. Another driver continues from "
    "the checkpoint.",
    passes="The second batch is read again with the same rows. Together, the drivers deliver every row once, if the "
    "repeated batch counts once.",
    look_at=(
        "locks and other resources that only close() releases: a killed planner never calls it",
        "state of the enumerator outside its snapshot",
        "a batch that gives other rows when it is read again",
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
