"""ALIGN: splits that hold back others, and for how long."""

from __future__ import annotations

from tidegate.conformance.abilities import Ability
from tidegate.conformance.declaring import rule
from tidegate.conformance.lab.judging import late
from tidegate.conformance.lab.lab import Lab, after
from tidegate.conformance.lab.query import Query
from tidegate.conformance.rules import Level
from tidegate.enumerators.runs import unpack_names

__all__ = [
    "check_a_bounded_run_reads_all_there_was_at_its_start_and_no_more",
    "check_a_finished_split_lets_the_others_go_on",
    "check_a_paused_split_never_becomes_idle",
    "check_a_split_that_ends_in_holes_is_read_to_its_end",
    "check_a_split_that_never_had_a_row_holds_nobody",
    "check_a_split_that_wakes_holds_the_others_again",
    "check_an_idle_split_is_idle_after_a_restart",
    "check_an_idle_split_lets_the_others_go_on_after_the_timeout",
    "check_in_a_bounded_run_a_split_at_its_end_holds_the_others_until_it_is_idle",
]

_NEVER_IDLE = {"maxDrift": "10 seconds", "idleTimeout": "1 day"}
_IDLE_IN_30_S = {"maxDrift": "10 seconds", "idleTimeout": "30 seconds"}
_STATES = "alignment.states"
_RULES = "docs/planning.md: The rules of a plan"
_GROWING = (Ability.MANY_SPLITS, Ability.GROWING_SPLITS)


@rule(
    "ALIGN-10",
    "a finished split lets the others go on",
    purpose="A finished split would hold back all others forever.",
    tested="A query reads one split, which is then finished. The rows of another split are minutes later. The max "
    "drift is 10 s.",
    passes="Until the first split is finished, the rows of the other wait. Then all of them are delivered, without any "
    "timeout.",
    look_at=("extents(): complete=True once no more rows can come",),
    needs=(Ability.MANY_SPLITS, Ability.FINITE_SPLITS),
    witness=("a finished split",),
    source="alignment.splits.Extent; FLINK-28357",
)
def check_a_finished_split_lets_the_others_go_on(lab: Lab) -> None:
    """Finish the slower of two splits."""
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


@rule(
    "ALIGN-11",
    "in a bounded run, a split at its end holds the others until it is idle",
    purpose="A run reads all there is, though one split ended long ago. Without waiting, rows that come to that split "
    "for the next run would be late.",
    tested="A query with Trigger.AvailableNow reads two splits, one of them minutes ahead. The max drift is 10 s, and "
    "the idleTimeout is 30 s.",
    passes="The run ends, and all rows are delivered.",
    look_at=("extents(): an end that reading never reaches", "peek(): a row at or after the end"),
    needs=(Ability.MANY_SPLITS,),
    witness=("a bounded run",),
    source=_RULES,
)
def check_in_a_bounded_run_a_split_at_its_end_holds_the_others_until_it_is_idle(lab: Lab) -> None:
    """Read splits that end minutes apart."""
    lab.split(*after(0, 5))
    lab.split(*after(1, 60, 120))
    query = Query(lab, lab.source(**_IDLE_IN_30_S))
    query.finish()
    lab.saw("a bounded run")
    lab.compare(query.delivered)


@rule(
    "ALIGN-12",
    "an idle split lets the others go on after the timeout, and not before",
    purpose="One quiet split would hold back all others forever. If it is released too early, its rows are late when "
    "it continues.",
    tested="One split is quiet, and another has rows a minute later. The max drift is 10 s, and the idleTimeout is 30 "
    "s.",
    passes="For 29 s the other split waits. After 31 s its rows are delivered.",
    look_at=("extents(): settled=True unless rows are hidden", "extents(): an end that moves without new rows"),
    needs=_GROWING,
    witness=("a split that holds", "a split that is idle"),
    source="FLIP-126; FLIP-217",
)
def check_an_idle_split_lets_the_others_go_on_after_the_timeout(lab: Lab) -> None:
    """Let the slower of two splits be quiet."""
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


@rule(
    "ALIGN-13",
    "a paused split never becomes idle",
    purpose="A paused split has rows, and only waits. If it became idle, the watermark would pass its rows, and they "
    "would be late.",
    tested="A split is paused for 2 minutes, while rows trickle into another one. The idleTimeout is 30 s.",
    passes="In these minutes, no offset names an idle split, and the paused rows wait. Once the other split is idle, "
    "they are delivered. None of them is late.",
    look_at=("extents(): the end of a split that is paused",),
    needs=_GROWING,
    witness=("a long pause",),
    source="FLINK-35886, FLINK-36751",
)
def check_a_paused_split_never_becomes_idle(lab: Lab) -> None:
    """Let a split be paused for longer than the idle timeout."""
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


@rule(
    "ALIGN-14",
    "an idle split is idle after a restart, too",
    level=Level.SHOULD,
    purpose="Otherwise all splits would wait for the quiet one again after every restart.",
    tested="One of two splits becomes idle, and the planner process is killed. Then the other split gets rows minutes "
    "later in event time.",
    passes="The rows are delivered before another idle timeout is over.",
    look_at=("extents(): an end beyond the last position that was read",),
    needs=_GROWING,
    witness=("a restart",),
    source="alignment.plan.Progress: idle",
)
def check_an_idle_split_is_idle_after_a_restart(lab: Lab) -> None:
    """Kill the planner process while a split is idle."""
    lab.split(*after(0))
    busy = lab.split(*after(1, 5))
    query = Query(lab, lab.source(**_IDLE_IN_30_S))
    query.run_until_read(lab.rows)
    query.rest()
    query.pass_time(31)
    query.crash()
    lab.saw("a restart")
    more = busy.append_each(*after(120, 180))
    begun_s = query.clock.now_s
    query.run_until_read(more)
    waited_s = query.clock.now_s - begun_s
    lab.expect(waited_s < 30, f"after the restart the rows of split {busy.number} wait for {waited_s:.0f} s")


@rule(
    "ALIGN-15",
    "a split that wakes holds the others again",
    purpose="If the others ran ahead, the next rows of the split that woke would be late.",
    tested="A split becomes idle, and then gets rows that are in time. Another split gets rows beyond the max drift.",
    passes="The other split waits until the split that woke is idle again.",
    look_at=("extents(): an end that does not move when rows come",),
    needs=_GROWING,
    witness=("a split that is idle", "a split that woke"),
    source=_STATES,
)
def check_a_split_that_wakes_holds_the_others_again(lab: Lab) -> None:
    """Wake a split."""
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


@rule(
    "ALIGN-16",
    "a split that never had a row holds nobody",
    purpose="An empty split would hold back all others before their first row.",
    tested="One split is empty. Another has rows that are further apart than the max drift of 10 s.",
    passes="All rows are delivered, without any timeout.",
    look_at=("latest() of an empty split: None, not 0 or -1",),
    needs=(Ability.MANY_SPLITS,),
    witness=("an empty split",),
    source=_RULES,
)
def check_a_split_that_never_had_a_row_holds_nobody(lab: Lab) -> None:
    """Leave a split empty."""
    lab.split()
    lab.split(*after(0, 60, 120))
    lab.saw("an empty split")
    query = Query(lab, lab.source(**_NEVER_IDLE))
    query.run_until_read(lab.rows)
    lab.compare(query.delivered)


@rule(
    "ALIGN-17",
    "a split that ends in holes is read to its end",
    purpose="A split that ends in an aborted transaction would never reach its end, and would hold back all others "
    "forever.",
    tested="One split ends in holes. Another has rows a minute later. The max drift is 10 s, and the idleTimeout is "
    "30 s.",
    passes="The later rows wait for the idle timeout, and are then delivered. After that, the query makes no more "
    "batches.",
    look_at=("peek(): None where no row is left before the end", "latest(): the last row before the holes"),
    needs=(Ability.MANY_SPLITS, Ability.HOLES),
    witness=("a hole at the end",),
    source=_RULES,
)
def check_a_split_that_ends_in_holes_is_read_to_its_end(lab: Lab) -> None:
    """Leave holes at the end of the slower of two splits."""
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


@rule(
    "ALIGN-18",
    "a bounded run reads all there was at its start, and no more",
    purpose="A run that continues with new rows may never end. A run that reads less leaves rows out.",
    tested="A query with Trigger.AvailableNow reads aligned splits. After its first batch, more rows come.",
    passes="The run delivers all rows that were there at its start, and none of the later ones. The next run delivers "
    "the later ones.",
    look_at=("extents(): an end that leaves rows out when a run starts",),
    witness=("a bounded run",),
    source=_RULES,
)
def check_a_bounded_run_reads_all_there_was_at_its_start_and_no_more(lab: Lab) -> None:
    """Let rows come during a bounded run."""
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
