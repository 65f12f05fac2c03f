"""Sessions of many keys at once: NumPy arrays with a place for each window, and a number for each key."""

from __future__ import annotations

import numpy as np

from tidegate.sources.windows.columns.firing import Bools, Ints, Places


def numbers_of_sessions(codes: Ints, starts: Ints, ends: Ints) -> Ints:
    """Return the number of the session of each window: windows of one key that overlap or touch are one session."""
    order = np.lexsort((starts, codes))
    of_key, begins = codes[order], starts[order]
    ranked, ranks = np.unique(ends[order], return_inverse=True)
    # The latest end so far, for each key anew: a later key has greater numbers.
    latest = np.maximum.accumulate(ranks + of_key * len(ranked)) - of_key * len(ranked)
    is_new = np.ones(len(order), bool)
    is_new[1:] = (of_key[1:] != of_key[:-1]) | (begins[1:] > ranked[latest[:-1]])
    groups = np.empty(len(order), np.int64)
    groups[order] = np.cumsum(is_new) - 1
    return groups


def begin_sessions(open_windows: tuple[Ints, Ints, Ints], windows: tuple[Ints, Ints, Ints]) -> Bools:
    """Return which windows of rows touch no open window of their key, and none of a row before them.

    Each is a code of its key, a start and an end.  The windows of rows are equally long; open windows do not touch.
    """
    (of_open, begins, finishes), (codes, starts, ends) = open_windows, windows
    if not len(codes):
        return np.zeros(0, bool)
    ranked, ranks = np.unique(np.concatenate((begins, starts, starts - (ends - starts), ends)), return_inverse=True)
    ranks += np.concatenate((of_open, codes, codes, codes)) * len(ranked)  # a later key has greater numbers
    begun, started, earliest, latest = np.split(ranks, np.cumsum([len(begins), len(starts), len(starts)]))
    order = np.argsort(started, kind="stable")
    lows = np.searchsorted(started[order], earliest)
    highs = np.searchsorted(started[order], latest, side="right")
    is_first: Bools = _least(order, lows, highs) == np.arange(len(order))
    if not len(begun):
        return is_first
    by_begin = np.argsort(begun)
    place = np.searchsorted(begun[by_begin], latest, side="right") - 1
    last = by_begin[np.maximum(place, 0)]
    touches_open: Bools = (place >= 0) & (of_open[last] == codes) & (finishes[last] >= starts)
    return is_first & ~touches_open


def _least(values: Places, lows: Places, highs: Places) -> Places:
    """Return the least value in each range, none of which is empty, by the minima of powers of two of places."""
    least, width, levels = np.empty(len(lows), np.intp), 1, values
    while True:
        fits = (highs - lows >= width) & (highs - lows < 2 * width)
        least[fits] = np.minimum(levels[lows[fits]], levels[highs[fits] - width])
        if (highs - lows < 2 * width).all():
            return least
        levels, width = np.minimum(levels[:-width], levels[width:]), 2 * width
