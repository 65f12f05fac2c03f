"""SPLIT: discovery of splits, and their names."""

from __future__ import annotations

import json
import time
from contextlib import closing
from itertools import count

from tidegate.alignment.splits import SplitId
from tidegate.conformance.abilities import Ability
from tidegate.conformance.lab.explain import difference, listed
from tidegate.conformance.lab.lab import BEGIN_MS, SECOND_MS, Lab, Split, after
from tidegate.conformance.lab.query import Query
from tidegate.conformance.rules import rule

_LOOKS = 3


@rule("SPLIT-1", needs=(Ability.NEW_SPLITS,), witness=("a split that came later",))
def a_split_that_comes_later_is_read_from_its_beginning(lab: Lab) -> None:
    old = lab.split(*after(0, 1))
    lab.wait_until_discovered(lab.source())
    query = Query(lab, lab.source())
    query.run_until_read(old.rows)
    _expect_later(lab, query, [])
    if lab.can(Ability.START_AT_END):
        lab.tell("the next query begins at the end")
        query, before = Query(lab, lab.source_at_end()), list(lab.splits)
        query.step()
        _expect_later(lab, query, before)


def _expect_later(lab: Lab, query: Query, before: list[Split]) -> None:
    """Add splits while a query runs, and while it is down.  Expect it to read all but the splits before."""
    for is_down in (False, True):
        if is_down:
            query.stop()
        query.run_until_read(lab.split(*after(2, 3)).rows)
        lab.saw("a split that came later")
    query.stop()
    wanted = {split.number: split.keys for split in lab.splits if split not in before}
    lab.refuse(difference(wanted, query.delivered, wanted="asked for"))


@rule("SPLIT-3", needs=(Ability.MANY_SPLITS,))
def the_first_look_finds_every_split(lab: Lab) -> None:
    for number in range(5):
        lab.split(BEGIN_MS + number * SECOND_MS)
    source, enumerator = lab.opened()
    extents = enumerator.extents(enumerator.discover())
    lab.compare(lab.keys(lab.read(source, lab.ranges(extents), enumerator)))


@rule("SPLIT-4")
def names_outlive_a_checkpoint(lab: Lab) -> None:
    lab.two_splits(BEGIN_MS)
    enumerator = lab.enumerator(lab.source())
    for split in lab.until(lambda: list(enumerator.discover()) or None, "discover() never finds a split"):
        lab.expect(isinstance(split, str), f"the split {split!r} is named by {type(split).__name__}, not by text")
        lab.expect(split, "a split has an empty name")
        try:
            kept = json.loads(json.dumps({split: 0}).encode())
            split.encode()
        except UnicodeEncodeError:
            raise lab.fail(f"the name {split!r} cannot be written as UTF-8") from None
        lab.expect(split in kept, f"the name {split!r} comes back from JSON as {next(iter(kept))!r}")


@rule("SPLIT-10")
def looking_again_changes_nothing(lab: Lab) -> None:
    lab.two_splits(BEGIN_MS, BEGIN_MS + SECOND_MS)
    source = lab.source()
    with closing(lab.enumerator(source)) as enumerator:

        def said(splits: list[SplitId]) -> dict[str, object]:
            return {
                "discover()": splits,
                "extents()": dict(sorted(enumerator.extents(splits).items())),
                "stops()": dict(sorted(enumerator.stops(splits).items())),
                "snapshot()": json.dumps(enumerator.snapshot(), sort_keys=True),
            }

        first, second, looks = said(lab.discovered(enumerator)), int(time.time()), count(2)

        def look_in_a_later_second() -> bool | None:
            later = int(time.time()) > second  # asked before the discovery, which then takes place in the later second
            look, now = next(looks), said(sorted(set(enumerator.discover())))
            changed = [method for method in first if first[method] != now[method]]
            lab.expect(
                not changed,
                f"nothing was added, but {listed(changed)} changed by discovery {look}"
                + "".join(f": from {first[method]} to {now[method]}" for method in changed[:1]),
            )
            return (look > _LOOKS and later) or None

        # A clock in a snapshot may count seconds.
        lab.until(look_in_a_later_second, "the second does not end")
    query = Query(lab, source)
    query.run_until_read(lab.rows)
    for _ in range(2):  # a split that is read to its end may be forgotten, after one more discovery
        query.pass_time(1.0)
    for number in range(1, 4):
        query.clock.sleep(1.0)
        lab.expect(not query.plan(), f"the query has read everything, but plan {number} after that makes a new offset")
