"""Staggered windows: an offset for each key, so that not all windows fire at once."""

from __future__ import annotations

import random
from enum import Enum

from tidegate.windows.window import window_start


class WindowStagger(Enum):
    """The rule that sets the offset of windows.

    ALIGNED: no offset.  RANDOM: a random one.  NATURAL: by the processing time of the first row.
    Flink draws one offset for each subtask, and keeps it in memory.  Here each key draws its own offset
    and keeps it in its state.  A key without windows has no state, so it draws anew.
    """

    ALIGNED = "aligned"
    RANDOM = "random"
    NATURAL = "natural"

    def get_stagger_offset(self, processing_time: int, size: int) -> int:
        """Return an offset in ms: at least 0, and less than the size of the windows."""
        if self is WindowStagger.RANDOM:
            return random.randrange(size)  # noqa: S311 - it spreads load, and keeps no secret
        if self is WindowStagger.NATURAL:
            return processing_time - window_start(processing_time, 0, size)
        return 0
