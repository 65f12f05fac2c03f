"""The picture of docs/windows.md: when every trigger fires for the same rows, by the operator itself.

python -m tests.windows.pictures
"""

from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

from tidegate.windows import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountTrigger,
    DeltaTrigger,
    EventTimeTrigger,
    NeverTrigger,
    ProcessingTimeoutTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from tidegate.windows.testing import WindowHarness

PICTURE = Path(__file__).parents[2] / "docs" / "images" / "windows.svg"
COMMAND = "scripts/window-pictures"

SIZE, LATENESS, END = 20, 8, 48
DISORDER = 3
# The clock, and the event time of the row that comes then, in seconds.  The row at 27 is late, that at 40 too late.
ROWS = [
    (2, 1),
    (5, 4),
    (6, 6),
    (9, 7),
    (14, 13),
    (18, 17),
    (22, 21),
    (24, 24),
    (27, 15),
    (31, 30),
    (36, 35),
    (40, 12),
    (46, 45),
]


def s(count):
    return timedelta(seconds=count)


TUMBLING = TumblingEventTimeWindows.of(s(SIZE))
BY_CLOCK = TumblingProcessingTimeWindows.of(s(SIZE))
TRIGGERS = {
    "EventTimeTrigger": (TUMBLING, EventTimeTrigger.create()),
    "PurgingTrigger of it": (TUMBLING, PurgingTrigger.of(EventTimeTrigger.create())),
    "ContinuousEventTimeTrigger, 5 s": (TUMBLING, ContinuousEventTimeTrigger.of(s(5))),
    "CountTrigger, 3": (TUMBLING, CountTrigger.of(3)),
    "PurgingTrigger of it ": (TUMBLING, PurgingTrigger.of(CountTrigger.of(3))),
    "DeltaTrigger, 5": (TUMBLING, DeltaTrigger.of(5.0, lambda last, row: row["at"] - last["at"])),
    "ProcessingTimeTrigger": (BY_CLOCK, ProcessingTimeTrigger.create()),
    "ContinuousProcessingTimeTrigger, 5 s": (BY_CLOCK, ContinuousProcessingTimeTrigger.of(s(5))),
    "ProcessingTimeoutTrigger, 4 s": (TUMBLING, ProcessingTimeoutTrigger.of(EventTimeTrigger.create(), s(4))),
    "NeverTrigger": (TUMBLING, NeverTrigger()),
}


class Firing(NamedTuple):
    """A result: its time, the start of its window, and the number of its rows."""

    at: int
    start: int
    rows: int


def firings(assigner, trigger):
    """Return the results that fire, second by second of the clock."""
    lateness = s(LATENESS) if assigner is TUMBLING else s(0)
    harness, fired, greatest = WindowHarness(assigner, trigger, allowed_lateness=lateness), [], None
    for now in range(END + 1):
        harness.processing_time(now * 1000)
        for at in (at for clock, at in ROWS if clock == now):
            harness.element("key", {"at": at}, at * 1000)
            greatest = at if greatest is None else max(at, greatest)
        if greatest is not None:
            harness.watermark((greatest - DISORDER) * 1000 - 1)
        fired += [Firing(now, pane.start_ms // 1000, len(pane.rows)) for pane in harness.panes]
        harness.panes.clear()
    return fired


LEFT, STEP, LINE, TOP = 260, 14, 26, 70
COLORS = {0: "#2a6f97", 20: "#c1666b", 40: "#6a994e"}


def x(second):
    return LEFT + second * STEP


def text(left, top, words, **style):
    attributes = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in style.items())
    return f'<text x="{left}" y="{top}"{attributes}>{words}</text>'


def picture():
    """Return the picture as SVG."""
    height = TOP + LINE * (len(TRIGGERS) + 1) + 34
    view = f'viewBox="0 0 {x(END) + 30} {height}" font-family="sans-serif" font-size="12"'
    title = f"Windows of {SIZE} s, {DISORDER} s of disorder, {LATENESS} s of allowed lateness"
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {view}>',
        '<rect width="100%" height="100%" fill="white"/>',
        text(10, 22, title, font_weight="bold"),
        text(10, 40, "A number is a result with so many rows; its colour is that of the window.", fill="#555"),
        text(10, TOP, "rows, by the clock; below: their event time"),
    ]
    for clock, at in ROWS:
        drawn.append(f'<circle cx="{x(clock)}" cy="{TOP - 8}" r="4" fill="{COLORS[at // SIZE * SIZE]}"/>')
        drawn.append(text(x(clock), TOP + 12, at, font_size=9, text_anchor="middle", fill="#555"))
    for number, (name, (assigner, trigger)) in enumerate(TRIGGERS.items(), 1):
        top = TOP + number * LINE + 10
        drawn.append(f'<line x1="{x(0)}" y1="{top - 4}" x2="{x(END)}" y2="{top - 4}" stroke="#ddd"/>')
        drawn.append(text(10, top, name.strip()))
        beside = {}
        for firing in firings(assigner, trigger):
            shift = beside[firing.at] = beside.get(firing.at, -1) + 1
            style = {"text_anchor": "middle", "font_weight": "bold", "fill": COLORS[firing.start]}
            drawn.append(text(x(firing.at) + shift * 9, top, firing.rows, **style))
    small = {"font_size": 9, "text_anchor": "middle", "fill": "#555"}
    axis = [text(x(second), height - 10, f"{second} s", **small) for second in range(0, END + 1, 5)]
    return "\n".join([*drawn, *axis, "</svg>", ""])


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
