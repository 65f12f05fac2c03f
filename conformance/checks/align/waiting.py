"""ALIGN: splits that hold back others, and for how long."""

from __future__ import annotations

from tidegate.conformance.abilities import Ability
from tidegate.conformance.lab.judging import late
from tidegate.conformance.lab.lab import Lab, after
from tidegate.conformance.lab.query import Query
from tidegate.conformance.rules import rule
from tidegate.enumerators.runs import unpack_names

_NEVER_IDLE = {"maxDrift": "10 seconds", "idleTimeout": "1 day"}
_IDLE_IN_30_S = {"maxDrift": "10 seconds", "idleTimeout": "30 seconds"}
_GROWING = (Ability.MANY_SPLITS, Ability.GROWING_SPLITS)


@rule("ALIGN-10", needs=(Ability.MANY_SPLITS, Ability.FINITE_SPLITS), witness=("a finished split",))
def a_finished_split_lets_the_others_go_on(lab: Lab) -> None:
    slow = lab.split(*after(0, 5))
    ahead = lab.split(*after(1, 60, 120))
    query = Query(lab, lab.source(**_NEVER_IDLE))
    query.run_until_read(slow.rows)
    query.rest()
    _expect_waiting(lab, query, ahead.keys[1], f"split {slow.number} may still get rows, and is not idle")
    slow.finish()
    lab.saw("a finished split")
    query.run_until_read(lab.rows)
    lab.compare(query.delivered)


@rule("ALIGN-11", needs=(Ability.MANY_SPLITS,), witness=("a bounded run",))
def in_a_bounded_run_a_split_at_its_end_holds_the_others_until_it_is_idle(lab: Lab) -> None:
    lab.split(*after(0, 5))
    lab.split(*after(1, 60, 120))
    query = Query(lab, lab.source(**_IDLE_IN_30_S))
    query.finish()
    lab.saw("a bounded run")
    lab.compare(query.delivered)


@rule("ALIGN-12", needs=_GROWING, witness=("a split that holds", "a split that is idle"))
def an_idle_split_lets_the_others_go_on_after_the_timeout(lab: Lab) -> None:
    quiet = lab.split(*after(0, 5))
    ahead = lab.split(*after(1, 60, 120))
    query = Query(lab, lab.source(**_IDLE_IN_30_S))
    query.run_until_read([*quiet.rows, ahead.rows[0]])
    query.rest()
    query.pass_time(29)
    _expect_waiting(
        lab, query, ahead.keys[1], f"split {quiet.number} is quiet for 29 s only, and the idle timeout is 30 s"
    )
    lab.saw("a split that holds")
    query.clock.sleep(2)
    query.run_until_read(lab.rows)
    lab.saw("a split that is idle")
    lab.compare(query.delivered)


@rule("ALIGN-13", needs=_GROWING, witness=("a long pause",))
def a_paused_split_never_becomes_idle(lab: Lab) -> None:
    slow = lab.split(*after(0))
    paused = lab.split(*after(1, 300, 301))
    query = Query(lab, lab.source(**_IDLE_IN_30_S))
    query.run_until_read([*slow.rows, paused.rows[0]])
    for second in range(1, 7):
        query.pass_time(20)
        query.run_until_read(slow.append_each(*after(second)))
        query.rest()
        idle = [split for batch in query.batches for split in unpack_names(batch.end.get("idle", ()))]
        lab.expect(
            not idle, f"{', '.join(map(repr, sorted(set(idle))))} became idle, although it has rows or just had some"
        )
        _expect_waiting(lab, query, paused.keys[1], f"split {slow.number} stands at +{second} s, and is not idle")
    lab.saw("a long pause")
    query.clock.sleep(31)
    query.run_until_read(lab.rows)
    lab.refuse(late(lab.times, query.batches))
    lab.compare(query.delivered)


@rule("ALIGN-15", needs=_GROWING, witness=("a split that is idle", "a split that woke"))
def a_split_that_wakes_holds_the_others_again(lab: Lab) -> None:
    quiet = lab.split(*after(0))
    busy = lab.split(*after(1, 5))
    query = Query(lab, lab.source(**_IDLE_IN_30_S))
    query.run_until_read(lab.rows)
    query.rest()
    query.pass_time(31)
    lab.saw("a split that is idle")
    woken = quiet.append_each(*after(61, 63))
    ahead = busy.append_each(*after(62, 90))
    query.run_until_read([*woken, ahead[0]])
    query.pass_time(25)
    _expect_waiting(lab, query, ahead[1].key, f"split {quiet.number} woke, and stands at +63 s")
    lab.saw("a split that woke")
    query.clock.sleep(31)
    query.run_until_read(lab.rows)
    lab.compare(query.delivered)


@rule("ALIGN-16", needs=(Ability.MANY_SPLITS,), witness=("an empty split",))
def a_split_that_never_had_a_row_holds_nobody(lab: Lab) -> None:
    lab.split()
    lab.split(*after(0, 60, 120))
    lab.saw("an empty split")
    query = Query(lab, lab.source(**_NEVER_IDLE))
    query.run_until_read(lab.rows)
    lab.compare(query.delivered)


@rule("ALIGN-17", needs=(Ability.MANY_SPLITS, Ability.HOLES), witness=("a hole at the end",))
def a_split_that_ends_in_holes_is_read_to_its_end(lab: Lab) -> None:
    slow = lab.split(*after(0, 5))
    slow.leave_hole()
    slow.leave_hole()
    ahead = lab.split(*after(1, 60))
    query = Query(lab, lab.source(**_IDLE_IN_30_S))
    query.run_until_read([*slow.rows, ahead.rows[0]])
    query.rest()
    _expect_waiting(lab, query, ahead.keys[1], f"split {slow.number} stands at +5 s, and is not idle")
    lab.saw("a hole at the end")
    query.pass_time(31)
    query.run_until_read(lab.rows)
    query.rest()
    lab.compare(query.delivered)


@rule("ALIGN-18", witness=("a bounded run",))
def a_bounded_run_reads_all_there_was_at_its_start_and_no_more(lab: Lab) -> None:
    first = lab.split(*after(0, 5, 20, 40))
    if lab.can(Ability.MANY_SPLITS):
        lab.split(*after(2, 30, 45))
    query = Query(lab, lab.source(**_IDLE_IN_30_S))
    query.start(bounded=True)
    query.step()
    later = set[str]()
    if lab.can(Ability.GROWING_SPLITS):
        later = {row.key for row in first.append_each(*after(41, 95))}
    elif lab.can(Ability.NEW_SPLITS):
        later = set(lab.split(*after(41, 95)).keys)
    query.rest()
    query.stop()
    lab.saw("a bounded run")
    too_early = later.intersection(query.delivered)
    lab.expect(not too_early, f"the run reads {', '.join(sorted(too_early))}, written after it had begun")
    left = lab.times.keys() - later - set(query.delivered)
    lab.expect(not left, f"the run ends without {', '.join(sorted(left))}, which were there when it began")
    query.finish()
    lab.compare(query.delivered)


def _expect_waiting(lab: Lab, query: Query, key: str, why: str) -> None:
    lab.expect(key not in query.delivered, f"the row {key} is read past the bound: {why}")
