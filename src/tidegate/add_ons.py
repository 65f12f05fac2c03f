"""All that an add-on uses of the core, which itself knows none; ``tidegate.windows`` is one.

An add-on loads the source of a user's stream once more, with the text of an ``AddOn`` as an option.  The stream then
carries the source's watermark in the column ``ADD_ON_WATERMARK``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidegate.alignment.budget import UNLIMITED, Budget
    from tidegate.alignment.index import TimeIndex
    from tidegate.alignment.splits import Extents
    from tidegate.enumerators.clocks import Clocks
    from tidegate.enumerators.contract import Json
    from tidegate.enumerators.planning.coordinator import SourceCoordinator
    from tidegate.enumerators.planning.offset import INITIAL_OFFSET, check_same_state
    from tidegate.sources.add_on import LATE_DROPPED, MORE_RECORDS, PASSING_STEPS, RECORDS, AddOn, RowStage, StageCall
    from tidegate.sources.bridge import Driver, check_has_watermarks, coordinator_of, schema_of, source_of
    from tidegate.sources.columns import check_is_frame, follow_add_on_watermark, later
    from tidegate.sources.options import in_one_sentence, option_names, sentence_of
    from tidegate.sources.session import session_conf
    from tidegate.sources.tasks import ADD_ON_WATERMARK, END_OF_TIME_MS, SOURCE_WATERMARK
    from tidegate.sources.worker_daemon import freeze_imports

_HOMES = {
    "ADD_ON_WATERMARK": "tidegate.sources.tasks",
    "END_OF_TIME_MS": "tidegate.sources.tasks",
    "INITIAL_OFFSET": "tidegate.enumerators.planning.offset",
    "LATE_DROPPED": "tidegate.sources.add_on",
    "MORE_RECORDS": "tidegate.sources.add_on",
    "PASSING_STEPS": "tidegate.sources.add_on",
    "RECORDS": "tidegate.sources.add_on",
    "SOURCE_WATERMARK": "tidegate.sources.tasks",
    "UNLIMITED": "tidegate.alignment.budget",
    "AddOn": "tidegate.sources.add_on",
    "Budget": "tidegate.alignment.budget",
    "Clocks": "tidegate.enumerators.clocks",
    "Driver": "tidegate.sources.bridge",
    "Extents": "tidegate.alignment.splits",
    "Json": "tidegate.enumerators.contract",
    "RowStage": "tidegate.sources.add_on",
    "SourceCoordinator": "tidegate.enumerators.planning.coordinator",
    "StageCall": "tidegate.sources.add_on",
    "TimeIndex": "tidegate.alignment.index",
    "check_has_watermarks": "tidegate.sources.bridge",
    "check_is_frame": "tidegate.sources.columns",
    "check_same_state": "tidegate.enumerators.planning.offset",
    "coordinator_of": "tidegate.sources.bridge",
    "follow_add_on_watermark": "tidegate.sources.columns",
    "freeze_imports": "tidegate.sources.worker_daemon",
    "in_one_sentence": "tidegate.sources.options",
    "later": "tidegate.sources.columns",
    "option_names": "tidegate.sources.options",
    "schema_of": "tidegate.sources.bridge",
    "sentence_of": "tidegate.sources.options",
    "session_conf": "tidegate.sources.session",
    "source_of": "tidegate.sources.bridge",
}

__all__ = [
    "ADD_ON_WATERMARK",
    "END_OF_TIME_MS",
    "INITIAL_OFFSET",
    "LATE_DROPPED",
    "MORE_RECORDS",
    "PASSING_STEPS",
    "RECORDS",
    "SOURCE_WATERMARK",
    "UNLIMITED",
    "AddOn",
    "Budget",
    "Clocks",
    "Driver",
    "Extents",
    "Json",
    "RowStage",
    "SourceCoordinator",
    "StageCall",
    "TimeIndex",
    "check_has_watermarks",
    "check_is_frame",
    "check_same_state",
    "coordinator_of",
    "follow_add_on_watermark",
    "freeze_imports",
    "in_one_sentence",
    "later",
    "option_names",
    "schema_of",
    "sentence_of",
    "session_conf",
    "source_of",
]


def __getattr__(name: str) -> Any:
    """Import a name when it is first used (PEP 562): executors need few of them."""
    if name not in _HOMES:
        raise AttributeError(f"module 'tidegate.add_ons' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value
