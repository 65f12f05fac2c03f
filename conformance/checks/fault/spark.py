"""FAULT: streams whose other side fails, and drivers that are killed."""

from __future__ import annotations

from contextlib import suppress

from tidegate.conformance.abilities import Ability
from tidegate.conformance.errors import DiedError
from tidegate.conformance.lab.explain import ordered_difference
from tidegate.conformance.lab.faults import cut_off
from tidegate.conformance.lab.lab import BEGIN_MS, SECOND_MS, Lab
from tidegate.conformance.lab.spark.driver import another_driver, keys_of_files, stream_until_killed
from tidegate.conformance.lab.spark.stream import SparkStream, folder
from tidegate.conformance.rules import Tier, rule

_LAST = 1


@rule("FAULT-6", tier=Tier.FAULTS, witness=("a run that failed",))
def a_stream_fails_with_a_sentence_and_goes_on_afterwards(lab: Lab) -> None:
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


@rule("FAULT-7", tier=Tier.FAULTS, witness=("a batch that was read again",))
def a_killed_driver_costs_no_rows(lab: Lab) -> None:
    split = lab.split(*(BEGIN_MS + n * 10 * SECOND_MS for n in range(4)))
    source = lab.source(maxDrift="15 seconds")
    checkpoint, files = folder(lab), folder(lab)
    arguments = (lab.harness.key_column, str(checkpoint), str(files), _LAST)
    lab.tell("a driver is killed before it commits its second batch")
    with suppress(DiedError):
        another_driver(lab, stream_until_killed, source, *arguments).result()
    before = keys_of_files(files)
    lab.expect(_LAST in before, f"with a max drift of 15 s there is no second batch, only {before}")
    more = split if lab.can(Ability.GROWING_SPLITS) else lab.split()
    more.append_each(BEGIN_MS + 40 * SECOND_MS)
    stream = SparkStream(lab, source, checkpoint)
    for batch in stream.run():
        if batch.number == _LAST:
            lab.saw("a batch that was read again")
            lab.refuse(
                ordered_difference("the second batch, before and after", sorted(before[_LAST]), sorted(batch.keys))
            )
    lab.compare([*before[0], *stream.delivered], in_order=False)
