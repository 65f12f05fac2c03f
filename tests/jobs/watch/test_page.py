"""The page of tidegate watch, from notes to HTML, and in a browser."""

import re
import threading
from contextlib import closing, contextmanager
from datetime import datetime, timedelta, timezone
from functools import partial
from http.client import HTTPConnection

import pytest

from tests.jobs.watch.notes import leave_note
from tests.support.browser import browse, measured
from tests.support.clocks import Clock
from tests.support.progresses import HOUR, MINUTE, NOON, report, run, typed
from tidegate.enumerators.folders.opening import open_folder
from tidegate.enumerators.notes import progress as notes
from tidegate.enumerators.notes.folder import NoteFolder
from tidegate.enumerators.notes.group import GroupFolder
from tidegate.enumerators.planning.source_progress import SourceProgress
from tidegate.errors import ConnectorError, OptionError
from tidegate.jobs.pages.query import query_page
from tidegate.jobs.watch.page import CONTENT_POLICY, live_page
from tidegate.jobs.watch.serve import PageServer, with_hours
from tidegate.jobs.watch.sources import LiveSource, group_sources, live_sources
from tidegate.readers.s3.config import S3ConnectionConfig

AT_NOON = datetime.fromtimestamp(NOON / 1000, timezone.utc)


def live(hour=(), dropped=0, query="orders by country", **fields):
    """Return a source that has just planned; ``hour`` has minutes before now and fields of the plans then."""
    plans = [(AT_NOON - timedelta(minutes=m), SourceProgress.from_json(report(**said))) for m, said in hour]
    now = SourceProgress.from_json(report(**fields))
    return LiveSource(query, "orders at kafka:9092", "app-1", AT_NOON, now, dropped, tuple(plans))


def two_splits(first, second):
    times = NOON - 9 * HOUR + first * MINUTE, NOON - 9 * HOUR + second * MINUTE
    return {
        f"orders-{n}": [state, at, 900] for n, (state, at) in enumerate(zip(("reading", "paused"), times, strict=True))
    }


def rows(page):
    return [re.findall(r"<td[^>]*>([^<]*)", row) for row in re.findall(r"<tr>(<td.*?)</tr>", page)]


def test_the_headline_says_how_far_all_are_and_whether_a_row_is_late():
    payments = live(query="payments", dropped=None, eventTimeLag=7 * HOUR, rowsRemaining=100)
    page = live_page([live(), payments], AT_NOON)
    assert "<h1>2 sources: 1,000 rows unread, up to 7 h behind, late rows 0</h1>" in page
    bad = live_page([live(dropped=5, lateRowsTotal=17, rowsRemaining=0)], AT_NOON)
    assert "<h1>1 source: all rows are read, late rows at least 5</h1>" in bad
    assert '<p class="lost">17 rows read behind the watermark</p>' in bad
    assert rows(bad)[-1][-2:] == ["17", "at least 5"]
    assert bad.count('class="lost"') == 3
    assert "900 rows unread, up to 5 h behind</h1>" in live_page([live(dropped=None)], AT_NOON)
    assert "<h1>No running tidegate source of yours is found.</h1>" in live_page([], AT_NOON)


def test_each_split_has_its_state_its_place_and_how_far_it_is_behind():
    by_split = {**two_splits(0, 180), "orders-10": ["caught up", None, 0], "orders-2": ["reading", NOON - HOUR, 4]}
    said = {"bySplit": by_split, "paused": {"orders-1": NOON - HOUR}, "lateSplits": ["orders-2"], "heldBy": "orders-0"}
    before = {"orders-10": ["reading", NOON - 2 * HOUR, 1]}  # it is read to its end
    hour = [(5, {"bySplit": before}), (1, {"bySplit": by_split, "watermark": NOON - 3 * HOUR})]
    page = live_page([live(hour, **said, splits={"paused": 1, "reading": 1}, watermark=NOON - 3 * HOUR)], AT_NOON)
    assert rows(page)[:4] == [
        ["orders-0", "reading, sets the bound", "2023-11-15 03:00:00", "9 h", "900"],
        ["orders-1", "paused for 1 h", "2023-11-15 06:00:00", "6 h", "900"],
        ["orders-2", "late", "2023-11-15 11:00:00", "1 h", "4"],
        ["orders-10", "caught up", "2023-11-15 10:00:00", "-", "0"],
    ]
    assert "Planned 0 s ago: 1 paused, 1 reading; held by orders-0." in page
    assert "held by" not in live_page([live(**said, splits={"reading": 2})], AT_NOON)


def test_the_last_hour_is_a_picture_over_the_time_of_day():
    hour = [(m, {"bySplit": two_splits(60 - m, 90), "bound": NOON - 8 * HOUR - m * MINUTE}) for m in (90, 40, 20)]
    page = live_page([live(hour, bySplit=two_splits(60, 90))], AT_NOON)
    line, *_ = re.findall(r'class="split split-\d" [^>]*points="([^"]+)"', page)
    assert len(line.split()) == 120 + 1  # steps of half a minute
    heights = [point.partition(",")[2] for point in line.split()]
    assert len(set(heights[1:])) == 4  # a plan holds until the next one
    labels = re.findall(r'text-anchor="middle">(\d\d:\d\d)<', page)
    assert labels == ["11:10", "11:20", "11:30", "11:40", "11:50"]
    assert "<title>orders-1 paused</title>" in page
    assert all(text in page for text in ("bound: nothing past it", "source&#x27;s watermark: no older"))


def test_many_splits_are_a_band_with_the_slowest_and_those_that_wait():
    page = live_page([live(bySplit={}, splits={"reading": 500}, paused={"orders-7": NOON - HOUR})], AT_NOON)
    assert "slowest split, now orders-0" in page
    assert "orders-7 paused for 1 h" in page
    assert "Furthest behind: orders-0." in page
    unknown = dict.fromkeys(("watermark", "bound", "low", "spread", "mostBehind"))
    assert "No event time is known" in live_page([live(bySplit={}, **unknown)], AT_NOON)


def test_a_page_that_begins_when_all_is_read_does_not_say_that_the_source_has_no_event_time():
    caught_up = {split: ["caught up", None, 0] for split in ("orders-0", "orders-1")}
    page = live_page([live(bySplit=caught_up, low=None, rowsRemaining=0)], AT_NOON)
    assert "Each split was read to its end before" in page
    assert "No event time is known" not in page


def test_names_are_text_and_manifests_have_no_ids():
    split = "00000012-0123456789abcdef"
    said = {"bySplit": {split: ["reading", NOON, 5]}, "heldBy": split, "splits": {"paused": 1}}
    page = live_page([live(query="<script>alert(1)</script>", **said)], AT_NOON)
    assert page.count("<script>") == 1
    assert "0123456789abcdef" not in page
    assert page.count("objects of round 12") == 3
    assert not re.search(r"https?:|src=|@import|url\((?!#)|<link", page)


def test_planners_keep_the_samples_of_their_last_hour(monkeypatch):
    now = [1_000.0]
    monkeypatch.setattr(notes.time, "monotonic", lambda: now[0])
    note = leave_note(bySplit=two_splits(0, 0))
    for _ in range(3 * notes.SAMPLE_S):
        now[0] += 1
        note.write(report(bound=NOON + int(now[0]), bySplit={f"orders-{n}": ["reading", NOON, 1] for n in range(13)}))
    (source,) = live_sources(with_hour=True)
    assert [at.bound is not None for _, at in source.hour] == [True] * 4
    assert [len(at.by_split) for _, at in source.hour] == [2, 0, 0, 0]  # a picture has lines for a few splits only
    assert live_sources()[0].hour == ()
    note.remove()
    assert live_sources(with_hour=True) == []


@contextmanager
def serving(find):
    with PageServer(0, find) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server
        finally:
            server.shutdown()


@pytest.fixture
def server():
    with serving(partial(live_sources, with_hour=True)) as server:
        yield server


def get(server, path="/", host="127.0.0.1"):
    with closing(HTTPConnection("127.0.0.1", server.server_port, timeout=10)) as connection:
        connection.request("GET", path, headers={"Host": f"{host}:{server.server_port}"})
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read().decode()


def test_only_the_page_is_served_and_only_to_this_machine(server):
    leave_note()
    assert server.server_address[0] == "127.0.0.1"
    status, headers, page = get(server)
    assert (status, headers["Content-Security-Policy"]) == (200, CONTENT_POLICY)
    assert "<h1>1 source: " in page
    assert get(server, host="localhost")[0] == 200
    for path in ("/etc/passwd", "/../../etc/passwd", "/?", "/index.html"):
        assert get(server, path)[0] == 404
    status, _, page = get(server, host="rebound.example")
    assert (status, "orders" in page) == (403, False)


def test_a_port_in_use_and_options_that_contradict_each_other_are_one_sentence(server, tidegate):
    with pytest.raises(
        OptionError, match=rf"--port is {server.server_port}, at which 127.0.0.1 cannot listen: Address"
    ):
        PageServer(server.server_port, list)
    assert tidegate("watch", "--once", "--html")[0].startswith("tidegate: --once prints the table, and --html")
    assert tidegate("watch", "--port", 8000)[0] == "tidegate: --port is for the page; give --html, too"


def test_a_location_that_does_not_answer_is_no_page():
    def find():
        raise ConnectorError("the bucket does not answer: secret")

    with serving(find) as broken:
        status, _, page = get(broken)
    assert (status, "secret" in page) == (503, False)


def test_members_of_groups_are_shown_by_their_notes_from_any_machine(tmp_path, tidegate):
    location = open_folder(str(tmp_path / "shared"), S3ConnectionConfig(), option="alignmentLocation", noun="location")
    orders, payments, new = members = [
        GroupFolder(NoteFolder(location).within("a/b"), HOUR, reads=reads, clocks=Clock().clocks)
        for reads in ("orders at kafka:9092", "payments at kafka:9092", "new at kafka:9092")
    ]
    for member in members:
        member.join(None)
        member.tell(NOON)
    find = with_hours(partial(group_sources, location))
    assert find() == []
    for member, bound in (orders, NOON), (payments, NOON + HOUR):
        member.show(report(bound=bound))
        member.renew()
    assert new.bound(NOON, None).low_ms == NOON  # the others still count
    assert {(source.reads, source.application, source.progress.bound) for source in find()} == {
        ("orders at kafka:9092", "group a/b", AT_NOON),
        ("payments at kafka:9092", "group a/b", AT_NOON + timedelta(hours=1)),
    }
    orders.leave()
    (source,) = find()
    assert (source.reads, len(source.hour)) == ("payments at kafka:9092", 1)
    assert "Heard of " in live_page([source], AT_NOON)
    code, table, errors = tidegate("watch", "--once", "--alignment-location", tmp_path / "shared")
    assert (code, errors) == (0, "")
    assert "payments at kafka:9092" in table


@pytest.mark.slow
def test_in_a_browser_the_page_refreshes_itself(tmp_path):
    names = iter(["first", "second"])

    def find():
        return [live(query=next(names, "later"))]

    with serving(find) as server:
        document = browse(tmp_path, f"http://127.0.0.1:{server.server_port}/")
    assert re.findall("<h2>(.*?)</h2>", document)[0] in {"second", "later"}
    assert 'class="gone"' not in document


@pytest.mark.slow
def test_in_a_browser_the_pages_fit_a_desk_a_phone_and_paper_and_are_dark_at_night(tmp_path):
    by_split = {f"orders-of-all-countries-{n}": ["reading", NOON + n * HOUR, 12_345_678] for n in range(12)}
    hour = [(minute, {"bySplit": by_split}) for minute in range(60)]
    said = {"bySplit": by_split, "heldBy": "orders-of-all-countries-3", "lateRowsTotal": 1_234_567}
    watched = live_page([live(hour, 5_000, **said), live(query="payments")], AT_NOON)
    pages = [watched, query_page([typed(entry) for entry in run(12)], ended=False)]
    dark = measured(tmp_path, pages, (1280, 390), "--blink-settings=preferredColorScheme=0")
    assert [width <= shown for (width, _), shown in zip(dark, (1280, 390) * 2, strict=True)] == [True] * 4, dark
    assert {colour for _, colour in dark} == {"rgb(17, 21, 29)"}
    (file, pdf) = tmp_path / "watch.html", tmp_path / "watch.pdf"
    file.write_text(watched)
    browse(tmp_path, file.as_uri(), f"--print-to-pdf={pdf}")
    assert 1 <= len(re.findall(rb"/Type /Page\b", pdf.read_bytes())) <= 3
