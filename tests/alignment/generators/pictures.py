"""The picture of docs/watermarks.md: three watermarks of the same batches, by the coordinator itself.

python -m tests.alignment.generators.pictures
"""

from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from tests.support.logs import Logs, coordinator, read
from tidegate.alignment.budget import Budget
from tidegate.alignment.strategy import WatermarkStrategy
from tidegate.enumerators.planning.offset import INITIAL_OFFSET
from tidegate.watermarks import punctuated_by

PICTURE = Path(__file__).parents[3] / "docs" / "images" / "watermarks.svg"
COMMAND = "scripts/watermark-pictures"

MINUTE_MS = 60_000
DISORDER = 2  # minutes
MARK_EVERY = 5  # minutes
ROWS_A_BATCH = 6
# Event times in minutes, in the order of the rows; the second split is the slower one.
SPLITS = {
    "fast": [
        0,
        2,
        1,
        3,
        5,
        4,
        6,
        8,
        7,
        9,
        11,
        10,
        12,
        14,
        13,
        15,
        17,
        16,
        18,
        20,
        19,
        21,
        23,
        22,
        24,
        26,
        25,
        27,
        29,
        28,
    ],
    "slow": [0, 1, 1, 2, 2, 3, 3, 4, 5, 4, 6, 6, 7, 7, 8, 9, 8, 10, 10, 11, 11, 12, 13, 12, 14, 14, 15, 15, 16, 16],
}
COLORS = {"fast": "#2a6f97", "slow": "#6a994e"}
LATE = "#d00000"


class Step(NamedTuple):
    """One batch: its rows as (split, minute), and the watermarks after it in minutes; None: there is none yet."""

    rows: list[tuple[str, int]]
    sparks: float | None
    planned: float | None
    generated: float | None


def complete_up_to(rows):
    """Mark at each fifth minute that all rows before it have come, except for the disorder."""
    return pa.array(
        [
            at - DISORDER * MINUTE_MS - 1 if at % (MARK_EVERY * MINUTE_MS) == 0 else None
            for at in rows["at"].to_pylist()
        ],
        pa.int64(),
    )


STRATEGIES = {
    "planned": WatermarkStrategy.for_bounded_out_of_orderness(timedelta(minutes=DISORDER)),
    "generated": WatermarkStrategy.for_generator(punctuated_by(complete_up_to)),
}


def batches(strategy):
    """Return for each batch its rows and the source's watermark in its offset."""
    logs = Logs(**{split: [at * MINUTE_MS for at in times] for split, times in SPLITS.items()})
    run, start, planned = coordinator(logs, watermarks=strategy, aligned=False), INITIAL_OFFSET, []
    while (end := run.latest_offset(start, Budget(rows=ROWS_A_BATCH))) != start:
        planned.append(([(s, SPLITS[s][at]) for s, at in read(run, start, end)], end.get("watermark")))
        start = end
    return planned


def minutes(time_ms):
    return None if time_ms is None else (time_ms + 1) / MINUTE_MS


def steps():
    """Return the batches with all three watermarks."""
    planned, generated = (batches(strategy) for strategy in STRATEGIES.values())
    shown, greatest = [], None
    for (rows, planned_ms), (same_rows, generated_ms) in zip(planned, generated, strict=False):
        assert rows == same_rows
        greatest = max([at for _, at in rows] + ([] if greatest is None else [greatest]))
        shown.append(Step(rows, greatest - DISORDER, minutes(planned_ms), minutes(generated_ms)))
    return shown


def late(kind):
    """Return the rows that are older than the watermark of the batches before them."""
    behind, before = [], None
    for step in steps():
        behind += [(split, at) for split, at in step.rows if before is not None and at < before]
        before = getattr(step, kind) if getattr(step, kind) is not None else before
    return behind


LEFT, TOP, WIDTH, HEIGHT = 60, 70, 62, 11
LAST = 30
LINES = {
    "sparks": ("Spark's: the greatest time less 2 minutes", "#d00000", "6 3"),
    "planned": ("planned: the least unread time less 2 minutes", "#222222", ""),
    "generated": ("generated: by marks at each fifth minute", "#bc6c25", "2 3"),
}


def x(batch):
    return LEFT + batch * WIDTH


def y(minute):
    return TOP + (LAST - minute) * HEIGHT


def text(left, top, words, **style):
    attributes = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in style.items())
    return f'<text x="{left}" y="{top}"{attributes}>{words}</text>'


def picture():
    """Return the picture as SVG."""
    shown = steps()
    width, height = x(len(shown)) + 330, y(0) + 60
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"',
        'font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        text(10, 22, "Three watermarks over the same batches of two splits", font_weight="bold"),
        text(10, 40, "A dot is a row. A ring marks a row that is late for Spark's watermark.", fill="#555"),
    ]
    for minute in range(0, LAST + 1, 5):
        drawn.append(f'<line x1="{LEFT}" y1="{y(minute)}" x2="{x(len(shown))}" y2="{y(minute)}" stroke="#eee"/>')
        drawn.append(text(LEFT - 8, y(minute) + 4, f"12:{minute:02}", font_size=10, text_anchor="end", fill="#555"))
    before = None
    for number, step in enumerate(shown):
        drawn.append(
            text(x(number) + WIDTH / 2, y(0) + 42, f"batch {number}", font_size=10, text_anchor="middle", fill="#555")
        )
        for place, (split, at) in enumerate(step.rows):
            left = x(number) + (place + 0.5) * WIDTH / len(step.rows)
            drawn.append(f'<circle cx="{left:.1f}" cy="{y(at)}" r="3" fill="{COLORS[split]}"/>')
            if before is not None and at < before:
                drawn.append(f'<circle cx="{left:.1f}" cy="{y(at)}" r="6" fill="none" stroke="{LATE}"/>')
        before = step.sparks
    for row, (kind, (words, color, dashes)) in enumerate(LINES.items()):
        points = []
        for number, step in enumerate(shown):
            at = getattr(step, kind)
            if at is not None:
                points += [f"{x(number + 1)},{y(at):.1f}", f"{x(min(number + 2, len(shown)))},{y(at):.1f}"]
        style = f'fill="none" stroke="{color}" stroke-width="2" stroke-dasharray="{dashes}"'
        drawn.append(f'<polyline points="{" ".join(points)}" {style}/>')
        top = TOP + 20 + row * 22
        drawn.append(f'<polyline points="{x(len(shown)) + 20},{top - 4} {x(len(shown)) + 50},{top - 4}" {style}/>')
        drawn.append(text(x(len(shown)) + 58, top, words, font_size=11))
    for row, (split, color) in enumerate(COLORS.items(), len(LINES)):
        top = TOP + 20 + row * 22
        drawn.append(f'<circle cx="{x(len(shown)) + 35}" cy="{top - 4}" r="3" fill="{color}"/>')
        drawn.append(text(x(len(shown)) + 58, top, f"rows of the {split} split", font_size=11))
    return "\n".join([*drawn, "</svg>", ""])


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
