"""Notes such as planners and listeners leave."""

from tests.support.progresses import report
from tidegate.enumerators.notes.application import application_notes
from tidegate.enumerators.notes.progress import PROGRESS, ProgressNote
from tidegate.enumerators.planning.pace import BATCHES, batch_note


def leave_note(reads="orders at kafka:9092", application="app-1", **fields):
    """Leave the note of a planner; return it, so that it can be written again."""
    note = ProgressNote(application_notes(application), "kafka", reads)
    note.write(report(**fields))
    return note


def leave_batch(query, application="app-1"):
    """Leave the note of a batch for the only planner of an application."""
    folder = application_notes(application)
    ((planner, _),) = folder.within(PROGRESS).notes()
    folder.within(BATCHES).write(planner, batch_note({}, 1.0, query, 0))
