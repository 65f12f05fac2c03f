"""All that an add-on uses of the core, which itself knows none; ``tidegate.windows`` is one.

An add-on loads the source of a user's stream once more, with the text of an ``AddOn`` as an option.  The stream then
carries the source's watermark in the column ``ADD_ON_WATERMARK``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidegate.enumerators.planning.offset import check_same_state
    from tidegate.sources.add_on import AddOn
    from tidegate.sources.bridge import check_has_watermarks, source_of
    from tidegate.sources.columns.watermark import follow_add_on_watermark, later
    from tidegate.sources.progress.query import LATE_DROPPED, WINDOWS
    from tidegate.sources.sentences import in_one_sentence, sentence_of
    from tidegate.sources.tasks import ADD_ON_WATERMARK, END_OF_TIME_MS
    from tidegate.sources.worker_daemon import freeze_imports

_HOMES = {
    "ADD_ON_WATERMARK": "tidegate.sources.tasks",
    "AddOn": "tidegate.sources.add_on",
    "END_OF_TIME_MS": "tidegate.sources.tasks",
    "LATE_DROPPED": "tidegate.sources.progress.query",
    "WINDOWS": "tidegate.sources.progress.query",
    "check_has_watermarks": "tidegate.sources.bridge",
    "check_same_state": "tidegate.enumerators.planning.offset",
    "follow_add_on_watermark": "tidegate.sources.columns.watermark",
    "freeze_imports": "tidegate.sources.worker_daemon",
    "in_one_sentence": "tidegate.sources.sentences",
    "later": "tidegate.sources.columns.watermark",
    "sentence_of": "tidegate.sources.sentences",
    "source_of": "tidegate.sources.bridge",
}

__all__ = [
    "ADD_ON_WATERMARK",
    "END_OF_TIME_MS",
    "LATE_DROPPED",
    "WINDOWS",
    "AddOn",
    "check_has_watermarks",
    "check_same_state",
    "follow_add_on_watermark",
    "freeze_imports",
    "in_one_sentence",
    "later",
    "sentence_of",
    "source_of",
]


def __getattr__(name: str) -> Any:
    """Import a name when it is first used (PEP 562): executors need few of them."""
    if name not in _HOMES:
        raise AttributeError(f"module 'tidegate.add_ons' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value
