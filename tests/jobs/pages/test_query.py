"""Pages of queries, and the traces that they draw."""

import re
from xml.etree import ElementTree as ET

import pytest

from tests.support.pages import browse, measured
from tests.support.progresses import HOUR, MINUTE, NOON, one, progress, report, run, source, typed
from tidegate.jobs.pages.chart import columns
from tidegate.jobs.pages.layout import utc_times
from tidegate.jobs.pages.query import COLUMNS, KEPT
from tidegate.jobs.pages.query import query_page as page_of
from tidegate.jobs.pages.trace import source_runs, trace, with_axis


def query_page(progresses, *, first=None, ended=False):
    return page_of([typed(entry, first=first) for entry in progresses], ended=ended)


def pictures(page):
    """Return the pictures that have a description, each with the classes of its marks."""
    svgs = [ET.fromstring(svg) for svg in re.findall(r"<svg [^>]*role=.*?</svg>", page, re.DOTALL)]  # noqa: S314
    return [[name for e in svg.iter() for name in e.get("class", "").split()] for svg in svgs]


@pytest.mark.parametrize(("splits", "lines"), [(1, 1), (3, 3), (12, 12), (13, 0), (100, 0), (1_000, 0)])
def test_a_picture_stays_readable_with_any_number_of_splits(splits, lines):
    page = query_page(run(splits))
    event_times, *others = pictures(page)
    assert len([name for name in event_times if re.fullmatch(r"split-\d+", name)]) >= lines
    assert ("band" in event_times) == (splits > 12)
    assert ("slowest" in event_times) == (splits > 12)
    assert ("fastest" in event_times) == (splits > 12)
    assert len(others) == (4 if splits > 12 else 3)
    assert len(page) < 40_000


def test_objects_are_shown_by_their_path_and_in_rows_whatever_their_chunks_and_manifests():
    manifest = "00000001-0123456789abcdef"
    said = report(plannedRows=40_000, reads="s3://bucket/events", bySplit={manifest: ["reading", NOON, 5]})
    page = query_page([progress(0, source(said))])
    assert "40,000 rows in 1 batch, late rows 0, complete<" in page
    assert "<h2>s3://bucket/events</h2>" in page
    assert "<td>s3://bucket/events</td><td>1</td><td>40,000</td>" in page


def test_windows_show_what_is_open_when_it_is_due_and_the_late_rows_that_they_dropped():
    calls = [[(1, 600, NOON), (2, 5, None)], [(1, 700, NOON + MINUTE)]]
    state = {"numRowsTotal": 9, "numRowsDroppedByWatermark": 0, "memoryUsedBytes": 2**20}
    state["customMetrics"] = {"rocksdbSstFileSize": 2**19}
    batches = [
        progress(
            number,
            source(report()),
            observedMetrics={
                "mine": {"windows": 7},
                "windows-1": {
                    "numLateRecordsDropped": 600,
                    "windows": [{"bucket": b, "windows": n, **({"due": at} if at else {})} for b, n, at in called],
                },
            },
            stateOperators=[state],
        )
        for number, called in enumerate(calls)
    ]
    shown = query_page(batches)
    assert (
        " 705 windows open in the 2 buckets that this run called, the first due at 2023-11-15 12:01:00 UTC; the state "
        "has 1.5 MiB. Windows dropped 1,200 rows as late (Flink: numLateRecordsDropped)." in shown
    )
    assert "indows" not in query_page([one(0)])


@pytest.mark.parametrize(
    ("ended", "paused", "sentence"),
    [
        (False, 1, "3 splits: 1 paused, 2 reading; held by orders-0."),
        (False, 0, "2 splits: 0 paused, 2 reading."),
        (True, 1, "3 splits; in the last plan 1 paused, 2 reading."),
    ],
)
def test_a_split_holds_back_others_while_one_is_paused_and_the_query_runs(ended, paused, sentence):
    page = query_page([one(0, splits={"paused": paused, "reading": 2})], ended=ended)
    assert sentence in page
    assert ("UTC; it has ended." in page) == ended


def test_latency_and_bad_records_are_told():
    page = query_page([one(n, badRecordsTotal=1_300 + n, oldestEventTime=1795240800000) for n in range(3)])
    assert "Bad records set aside: 1,302." in page  # of the last progress
    assert "Latency of the last one: 2 h" in page
    assert "minutes of latency" in page or "hours of latency" in page
    assert "Bad records" not in query_page(run(3))


def test_without_any_event_time_there_are_only_batches():
    unknown = dict.fromkeys(("watermark", "bound", "low", "heldBy", "oldestEventTime"))
    page = query_page([one(0, **unknown, bySplit={"orders-0": ["reading", None, 5]})])
    assert "No event time is known" in page
    assert len(pictures(page)) == 2


def test_every_tidegate_source_has_its_own_pictures_and_row():
    both = [
        progress(
            number,
            source(report(plannedRows=10, reads="orders at kafka:9092")),
            source({"orders": {"0": 1}}),
            source(report(plannedRows=20, reads="payments at kafka:9092")),
        )
        for number in range(3)
    ]
    assert [(entry.name, entry.batches[0].rows) for entry in source_runs([typed(entry) for entry in both])] == [
        ("orders at kafka:9092", 10),
        ("payments at kafka:9092", 20),
    ]
    page = query_page(both)
    assert len(pictures(page)) == 8
    assert page.count("<tr><td>") == 2


def test_a_query_without_a_name_is_titled_by_what_it_reads():
    said = report(plannedRows=10, reads="orders at kafka:9092")
    assert "<title>tidegate: orders at kafka:9092</title>" in query_page([progress(0, source(said))])
    assert "<title>tidegate: counts</title>" in query_page([progress(0, source(said), name="counts")])


def marks(page, name):
    """Return the attributes of the marks of a class."""
    tags = re.findall(rf'<\w+ class="[^"]*\b{name}\b[^>]*>', page)
    return [dict(re.findall(r'([\w-]+)="([^"]*)"', mark)) for mark in tags]


def with_paused(*hours):
    """Return a run whose first split is read while other splits are paused at some hours of event time."""
    paused = {f"orders-{n}": ["paused", NOON + int(hour * HOUR), 50] for n, hour in enumerate(hours, 1)}
    return [
        progress(n, source(report(plannedRows=10, bySplit={"orders-0": ["reading", NOON + n * HOUR, 9], **paused})))
        for n in range(1, 9)
    ]


def test_a_pause_is_a_bar_with_its_split_and_its_batches():
    page = query_page(with_paused(9, 9.1))
    assert len(marks(page, "pause")) == 3  # one is in the legend
    assert "<title>orders-1 paused, batches 1 to 8</title>" in page


def test_the_page_says_when_the_beginning_is_missing():
    assert "missing" not in query_page(run(3))
    kept_all_of_this_run = query_page(run(3, batches=5, first=7), first=7)
    assert "what earlier runs planned, up to batch 6, is not shown" in kept_all_of_this_run
    cut = query_page(run(3, batches=5, first=7), first=3)
    assert "Spark keeps the last 5 entries" in cut
    assert KEPT in cut


def test_late_rows_are_marked_in_their_batch_and_counted():
    page = query_page(run(3))
    assert [names.count("marked") for names in pictures(page)] == [0, 1, 0, 0]
    assert '<td class="lost">17</td>' in page
    assert "lost" not in query_page(run(3, batches=3)).partition("<main>")[2]


def test_the_page_needs_no_other_file_and_escapes_names():
    page = query_page(run(3, name="<b>a & b</b>"))
    assert not re.search(r"https?:|src=|@import|url\((?!#)|<script|<link", page)
    assert "<b>" not in page
    assert "&lt;b&gt;a &amp; b" in page
    assert "$" not in page
    assert all(f"<th>{column}</th>" in page for column in COLUMNS)


def test_without_a_plan_there_is_no_page_and_without_rows_no_picture():
    assert query_page([]) is None
    assert query_page([progress(0, source(None), source({"orders": {"0": 1}}))]) is None
    assert pictures(query_page([one(0, rows=0)])) == []


@pytest.mark.parametrize(
    ("length", "label"),
    [
        (0, "12:00:00"),
        (5_000, "12:00:01"),
        (30 * MINUTE, "12:05"),
        (11 * HOUR, "14:00"),
        (30 * HOUR, "11-15 18:00"),
        (90 * 24 * HOUR, "2023-12-09"),
        (400 * 365 * 24 * HOUR, "2079"),
    ],
)
def test_the_axis_says_as_much_of_a_time_as_its_ticks_need(length, label):
    axis = utc_times(NOON, NOON + length)
    labels = [text for _, text in axis.ticks]
    assert any(text.startswith(label) for text in labels), labels
    assert 1 <= len(labels) <= 10
    assert len(set(labels)) == len(labels)
    assert all(axis.begin <= at_ms <= axis.end for at_ms, _ in axis.ticks)
    assert ("2023-11-15" in axis.title) == (length < 12 * HOUR)


@pytest.mark.parametrize("heights", [[], [0, 0], [1], [3, 7], [0.4, 0.63], [9, 3_300_000]])
def test_columns_stay_within_the_picture_and_whole_numbers_have_whole_ticks(heights):
    svg = columns(list(range(len(heights))), heights, "rows", "rows of each batch")
    tops = [float(top) for top in re.findall(r"V([\d.]+)H", svg)]
    assert len(tops) == len([height for height in heights if height])
    assert all(14 <= top < 164 for top in tops)
    ticks = re.findall(r'text-anchor="end">([^<]+)<', svg)
    assert all("." not in tick for tick in ticks) or 0.4 in heights


@pytest.mark.parametrize(
    ("held_by", "sentence"),
    [
        ("orders-1", "orders-1 holds the watermark, at 2023-11-15 12:00:00."),
        ("orders-2", "orders-2 holds the watermark: it has none yet."),
        (None, "No split holds the watermark: all are idle or at their ends."),
    ],
)
def test_a_page_tells_which_split_holds_the_watermark_of_generators(held_by, sentence):
    by_split = {"orders-0": [NOON + HOUR, "active"], "orders-1": [NOON, "active"], "orders-2": [None, "active"]}
    said = {"heldBy": held_by, "readHere": 1_200, "rows": 9_000, "lateRows": 30, "bySplit": by_split}
    page = query_page([progress(0, source(report(generated=said)))])
    assert f"{sentence} 30 of 9,000 rows came behind the watermark in this run." in page


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        (
            {"until": None, "heldFrom": NOON},
            "No folder is complete yet; the folder of 2023-11-15 12:00:00 has objects, and",
        ),
        ({"until": NOON - 1, "heldFrom": None}, "complete up to 2023-11-15 11:59:59; no folder with objects waits"),
    ],
)
def test_a_page_tells_which_folder_holds_the_watermark(said, sentence):
    assert sentence in query_page([progress(0, source(report(completeness=said)))])


@pytest.mark.slow
def test_in_a_browser_the_page_fits_a_desk_a_phone_and_paper_and_is_dark_at_night(tmp_path):
    page = query_page(run(12))
    dark = measured(tmp_path, [page], (1280, 390), "--blink-settings=preferredColorScheme=0")
    assert [width <= shown for (width, _), shown in zip(dark, (1280, 390), strict=True)] == [True] * 2, dark
    assert {colour for _, colour in dark} == {"rgb(17, 21, 29)"}
    (file, pdf) = tmp_path / "query.html", tmp_path / "query.pdf"
    file.write_text(page)
    browse(tmp_path, file.as_uri(), f"--print-to-pdf={pdf}")
    assert 1 <= len(re.findall(rb"/Type /Page\b", pdf.read_bytes())) <= 3


def runs_of(progresses):
    return source_runs([typed(entry) for entry in progresses])


def trace_of(progresses):
    (run,) = runs_of(progresses)
    return with_axis(trace(run.batches))


def test_a_line_begins_at_the_low_and_goes_through_the_next_records():
    shown, _ = trace_of(run(3, batches=3))
    assert shown.reached["orders-0"] == [NOON, NOON + HOUR, NOON + 2 * HOUR, NOON + 3 * HOUR - MINUTE]
    assert shown.reached["orders-2"][:2] == [NOON + 8 * HOUR] * 2
    assert shown.paused["orders-2"] == {0, 1, 2}


def test_a_split_that_is_read_to_its_end_stands_at_the_watermark_unless_it_is_idle():
    first = one(0, bySplit={"orders-0": ["reading", NOON, 5]})
    states = [("reading", 2), ("caught up", 3), ("idle", 4), ("finished", 5)]
    later = [
        one(number, watermark=NOON + number * HOUR, bySplit={"orders-0": [state, None, 0]}) for state, number in states
    ]
    shown, _ = trace_of([first, *later])
    assert shown.reached["orders-0"] == [NOON, NOON, *(NOON + n * HOUR for n in (2, 3, 3, 3))]


def test_a_split_that_comes_later_is_a_line_from_there_on():
    both = {"orders-0": ["reading", NOON + HOUR, 5], "orders-1": ["reading", NOON, 5]}
    shown, _ = trace_of([one(0), one(1, bySplit=both)])
    assert shown.reached["orders-1"] == [None, None, NOON]


def test_batches_that_read_nothing_are_left_out_but_what_they_say_last_is_not():
    run = runs_of([one(3), one(4), one(4, rows=0, rowsRemaining=7)])[0]
    assert [batch.query.number for batch in run.batches] == [3, 4]
    assert run.last.rows_remaining == 7


def test_rows_that_were_planned_and_then_put_off_are_of_no_batch():
    (run,) = runs_of([one(0), progress(1, source(report(plannedRows=7), moves=False))])
    assert [batch.rows for batch in run.batches] == [10]


def test_a_bound_far_beyond_all_splits_does_not_flatten_the_picture():
    shown, axis = trace_of([one(0), one(1, bound=NOON + 24 * 365 * HOUR, watermark=-(2**62))])
    assert axis.end - axis.begin < 4 * HOUR
    assert shown.stairs["bound"] == [NOON + HOUR, None]
    assert shown.stairs["source-watermark"] == [NOON - MINUTE, None]


@pytest.mark.parametrize("splits", [40, 1_000])
def test_the_median_is_between_the_slowest_and_the_fastest(splits):
    shown, axis = trace_of(run(splits))
    lines = (shown.reached[name] for name in ("slowest", "median", "fastest"))
    times = [*zip(*lines, strict=True)]
    assert times[3][0] < times[3][1] < times[3][2]
    assert all(axis.begin <= slowest <= median <= fastest <= axis.end for slowest, median, fastest in times)


def test_lines_that_lie_on_each_other_take_turns():
    gradients = re.findall(r"<linearGradient [^>]*>(.*?)</linearGradient>", query_page(run(3)))
    turns = [re.findall(r'offset="([\d.]+)" stop-opacity="(\d)"', stops) for stops in gradients]
    visible = [[float(at) for at, opacity in stops if opacity == "1"] for stops in turns]
    assert visible == [[0, 0.3333], [0.3333, 0.6667], [0.6667, 1]]
    assert "linearGradient" not in query_page(run(1))


def test_splits_are_in_the_order_of_their_numbers():
    shown, _ = trace_of(run(12))
    assert list(shown.reached) == [f"orders-{number}" for number in range(12)]


def test_a_split_that_never_delivered_is_no_line():
    shown, _ = trace_of([one(0, bySplit={"orders-0": ["reading", NOON, 5], "orders-1": ["caught up", None, 0]})])
    assert list(shown.reached) == ["orders-0"]


def test_of_many_splits_only_the_slowest_begins_at_the_low():
    shown, _ = trace_of(run(1_000))
    begins = {name: times[0] for name, times in shown.reached.items()}
    assert begins == {"slowest": NOON, "median": NOON + HOUR + 18 * MINUTE, "fastest": NOON + 8 * HOUR}
