"""The alignment group of a source.  Its members meet in a folder of the application, or in one that several share."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from tidegate.enumerators.notes.application import application_notes, others_with
from tidegate.enumerators.notes.folder import NoteFolder
from tidegate.enumerators.notes.group import GroupFolder, any_reads_on

if TYPE_CHECKING:
    from tidegate.sources.contract import SourceContract


_LOG = logging.getLogger("tidegate.planner")
_SHARED_REPEAT_S = 1.0


def group_of(source: SourceContract, application_id: str) -> GroupFolder | None:
    """Return the group that a run of a source takes part in.  Called in the planner process.

    Logs a warning if another application on this machine has a group of the same name, and no location joins the two.
    """
    strategy = source.watermarks
    if strategy.group is None or strategy.max_drift_ms is None:
        return None
    return GroupFolder(
        _notes(source, application_id, strategy.group, lease_s := strategy.group_lease.total_seconds()),
        strategy.max_drift_ms,
        strategy.group_members,
        reads=source.reads,
        lease_s=lease_s,
    )


def _notes(source: SourceContract, application_id: str, group: str, lease_s: float) -> NoteFolder:
    if (location := source.alignment_folder) is not None:
        return NoteFolder(location, _SHARED_REPEAT_S).within(group)
    others = others_with(application_id, "groups", group, within_s=lease_s)
    others = [other for other in others if any_reads_on(application_notes(other).within("groups", group))]
    if others:
        _LOG.warning(
            "the application %s has an alignmentGroup %r, too, and does not keep together with this one; "
            "set the same alignmentLocation in both, or another name",
            others[0],
            group,
        )
    return application_notes(application_id).within("groups", group)
