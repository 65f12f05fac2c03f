"""FAULT: streams whose other side fails."""

from __future__ import annotations

from tidegate.conformance.abilities import Ability
from tidegate.conformance.lab.faults import cut_off
from tidegate.conformance.lab.lab import BEGIN_MS, SECOND_MS, Lab
from tidegate.conformance.lab.spark.stream import SparkStream
from tidegate.conformance.rules import Tier, rule


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
