from xml.etree import ElementTree as ET

from tests.jobs.samples import HISTORY, HOUR, aligned, unaligned
from tidegate.jobs.demo.page import COLUMNS, page, row, traced
from tidegate.jobs.demo.run import Demo, skewed_history
from tidegate.jobs.pages.axis import hours_since
from tidegate.jobs.pages.chart import chart

DEMO = Demo(HISTORY, (unaligned(), aligned()))


def elements(svg, name):
    """Return the elements whose class is or begins with a name."""
    return [e for e in ET.fromstring(svg).iter() if e.get("class", "").split(" ")[0].startswith(name)]  # noqa: S314


def picture(run):
    return chart(traced(DEMO, run), hours_since(0, 4 * HOUR), "a run", ["60 rows", "lost"])


def test_what_ran_below_the_watermark_is_filled_and_told():
    svg = picture(unaligned())
    assert len(elements(svg, "late")) == 1
    assert "60 rows</text>" in svg
    assert not elements(picture(aligned()), "late")
    assert "60 rows</text>" not in picture(aligned())


def test_the_bound_and_spark_s_watermark_are_stairs():
    svg = picture(aligned())
    assert [len(elements(svg, name)) for name in ("bound", "watermark", "source-watermark")] == [1, 1, 0]
    assert not elements(picture(unaligned()), "bound")


def test_all_marks_stay_within_the_picture():
    for run in (unaligned(), aligned()):
        for line in elements(picture(run), "split"):
            for point in line.get("points", "").split():
                x, y = map(float, point.split(","))
                assert 0 <= x <= 560
                assert 0 <= y <= 400


def test_the_page_names_every_split_and_every_figure():
    text = page(DEMO)
    words = ("60 of 150 rows lost (40.0 %)", "None of 150 rows lost", "60 rows read below")
    for expected in (*HISTORY, *COLUMNS[:4], *words):
        assert expected in text
    for run in DEMO.runs:
        for cell in row(run):
            assert f">{cell}</td>" in text


def test_the_history_is_skewed_and_always_the_same():
    history = skewed_history(3_301)
    assert sum(map(len, history)) == 3_301
    assert [times[0] for times in history[:3]] == [1_767_225_600_000] * 3
    assert history[3][0] == history[0][0] + 22 * HOUR
    assert max(times[-1] for times in history) < history[0][0] + 24 * HOUR
