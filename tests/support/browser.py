"""A real browser without a window, if this machine has one."""

import re
import shutil
import subprocess
from html import escape

import pytest

from tests.support.waiting import PATIENCE_S

_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
_QUIET = ("no-first-run", "disable-background-networking", "disable-component-update", "disable-sync", "disable-quic")


def browse(folder, address, *options):
    """Open a page in Chromium, and return its document after its scripts have run for some seconds of their time.

    folder: an empty profile is made there.
    options: more options of Chromium, such as ``--print-to-pdf=FILE``.

    Skips the test if there is no Chromium, which pip cannot install.
    """
    chromium = next(filter(None, map(shutil.which, _NAMES)), None)
    if chromium is None:
        pytest.skip(f"none of {', '.join(_NAMES)} is on the PATH, and pip installs no browser")
    switches = [f"--{name}" for name in ("headless=new", "no-sandbox", "disable-gpu", *_QUIET)]
    command = [chromium, *switches, f"--user-data-dir={folder / 'profile'}", "--virtual-time-budget=5000"]
    done = subprocess.run(
        [*command, "--dump-dom", *options, address], capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    return done.stdout


def measured(folder, pages, widths, *options):
    """Show pages in frames of some widths; return for each how many pixels it is wide, and its background's colour."""
    frames = [(page, width) for page in pages for width in widths]
    file = folder / "frames.html"
    file.write_text(
        "".join(f'<iframe style="width: {width}px" srcdoc="{escape(page)}"></iframe>' for page, width in frames)
        + """<pre></pre><script>onload = () => { document.querySelector("pre").textContent =
          [...document.querySelectorAll("iframe")].map(({contentDocument: d}) =>
            d.documentElement.scrollWidth + " " + getComputedStyle(d.body).backgroundColor).join("\\n") }</script>""",
        encoding="utf-8",
    )
    (lines,) = re.findall("<pre>(.*?)</pre>", browse(folder, file.as_uri(), *options), re.DOTALL)
    return [(int(width), colour) for width, _, colour in (line.partition(" ") for line in lines.splitlines())]
