"""The demonstration as a person runs it, with fewer rows."""

import re
import signal

from tests.support.command import finish, started

ROWS = 33_000


def figures(output, name):
    """Return a line of the table as numbers: unaligned, aligned."""
    line = re.search(rf"│ {name} +" + 2 * r"│ +([\d,]+)[^│]*", output)
    assert line, output
    return [int(figure.replace(",", "")) for figure in line.groups()]


def test_aligned_it_loses_no_row_and_unaligned_it_does(tmp_path):
    html = tmp_path / "pages" / "demo.html"
    with started("demo", "--rows", ROWS, "--html", html) as process:
        code, output, errors = finish(process)
    assert code == 0, errors
    assert "Traceback" not in errors
    assert output.rstrip().endswith(str(html))

    counted, waiting, lost = (figures(output, name) for name in ("counted", "in open windows", "lost"))
    assert [sum(run) for run in zip(counted, waiting, lost, strict=True)] == [ROWS] * 2
    assert lost[0] > ROWS / 2
    assert lost[1] == 0
    ends = [line.partition(": ")[2] for line in output.splitlines()[-3:-1]]
    assert ends == [f"late rows {lost[0]:,}, the rest complete", "late rows 0, complete"]
    assert 0 < waiting[1] < ROWS / 100
    dropped = figures(output, "Spark's drop metric")
    assert 0 < dropped[0] < lost[0]
    assert dropped[1] == 0

    page = html.read_text()
    assert page.count('<svg viewBox="0 0 560 400"') == 2
    assert all(f"orders-{partition}" in page for partition in range(4))
    assert "orders-3 paused" in page
    assert "http" not in page


def test_stopped_it_says_so_in_one_sentence(tmp_path):
    """The demonstration is stopped as soon as Kafka runs; ``test_session`` stops the work of Spark."""
    with started("demo", "--rows", ROWS, "--html", tmp_path / "demo.html") as process:
        for line in process.stderr:
            if line.startswith("Loading"):
                process.send_signal(signal.SIGINT)
                break
        code, _, errors = finish(process)
    assert code == 128 + signal.SIGINT
    assert errors.splitlines()[-1] == "tidegate: stopped; no page is written"
    assert "Traceback" not in errors
    assert not (tmp_path / "demo.html").exists()


def test_a_page_that_cannot_be_written_is_refused_before_anything_runs(tidegate, tmp_path):
    (tmp_path / "file").touch()
    html = tmp_path / "file" / "demo.html"
    code, output, errors = tidegate("demo", "--rows", ROWS, "--html", html)
    assert code.startswith(f"tidegate: --html is '{html}', where nothing can be written: ")
    assert (len(code.splitlines()), output, errors) == (1, "", "")
