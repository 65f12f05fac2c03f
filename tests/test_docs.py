"""The documentation names only things that exist, and all that it must name."""

import ast
import re

from tests.sources.options_table import DOCS, LINES, LIST, OF_SPARK, OURS, named, remade
from tests.support.pages import PAGES, ROOT
from tidegate import KafkaSource, S3Source


def documented(page):
    """Return the names in the lists of a page of options."""
    return {name for made in LIST.findall((DOCS / page).read_text()) for name in named(made)}


def test_the_lists_of_options_and_of_progress_are_what_the_code_says():
    for page in LINES:
        assert remade(page) == (DOCS / page).read_text(), "scripts/options-table"
    assert {*KafkaSource.valid_options()} >= OF_SPARK
    assert {f"kafka.{name}" for name in OURS} <= documented("kafka-properties.md")
    assert {*S3Source.valid_options()} <= documented("options-kafka.md") | documented("options-s3.md")


def anchors(page):
    """Return the anchors that GitHub gives the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


def test_no_link_in_the_documentation_is_dead():
    links = [
        (page, page.parent / target if target else page, anchor)
        for page in PAGES
        for target, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]+))?\)", page.read_text())
    ]
    assert len(links) > 50
    assert [(page.name, target.name) for page, target, _ in links if not target.exists()] == []
    assert [(page.name, anchor) for page, target, anchor in links if anchor and anchor not in anchors(target)] == []


def modules():
    """Return the text of each module of the packages."""
    packages = {path.name for path in (ROOT / "src/tidegate").iterdir() if path.is_symlink()}
    return {path: path.read_text() for package in packages for path in (ROOT / package).rglob("*.py")}


def test_every_page_that_a_module_names_exists():
    named = [(path.name, page) for path, text in modules().items() for page in re.findall(r"docs/[\w/-]+\.md", text)]
    assert len(named) > 5
    assert [(module, page) for module, page in named if not (ROOT / page).exists()] == []


def test_what_tidegate_says_by_the_questions_is_in_its_code():
    said = (ROOT / "docs/faq.md").read_text().partition("## What tidegate says\n")[2].partition("\n## ")[0]
    sentences = re.findall(r"^### `(.*)`$", said, re.MULTILINE)
    code = re.sub(r'"\s+f?"', "", "".join(modules().values()))
    assert len(sentences) > 5
    assert [sentence for sentence in sentences if sentence not in code] == []


def test_every_folder_of_modules_is_named_on_the_page_of_folders():
    packages = {path.name for path in (ROOT / "src/tidegate").iterdir() if path.is_symlink()}
    entries = re.findall(r"^- ((?:`[^`]+/`(?:, )?)+): ", (ROOT / "docs/reference/folders.md").read_text(), re.MULTILINE)
    named = set(re.findall(r"`([^`]+)/`", " ".join(entries)))
    there = {str(path.parent.relative_to(ROOT)) for package in packages for path in (ROOT / package).rglob("*.py")}
    assert there - named == set()
    assert [folder for folder in named if not (ROOT / folder).is_dir()] == []


def names_in(file):
    """Return the names of a file's tests, those in a class with its name, and its classes of tests."""
    for node in ast.parse((ROOT / file).read_text()).body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            yield node.name
        elif isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            yield node.name
            yield from (f"{node.name}::{method.name}" for method in node.body if isinstance(method, ast.FunctionDef))


def exists(test):
    """Return whether a test with pytest's name exists: FILE, FILE::NAME or FILE::CLASS::NAME."""
    file, _, name = test.partition("::")
    return (ROOT / file).is_file() and (not name or name in names_in(file))


def test_every_promise_names_a_test_and_every_test_that_is_named_exists():
    rows = [line for line in (ROOT / "docs/reference/guarantees.md").read_text().splitlines() if line.startswith("| ")]
    promised = [row for row in rows if not row.startswith(("| ---", "| promise"))]
    named = [test for page in PAGES for test in re.findall(r"`(tests/[\w/]+\.py[^`]*)`", page.read_text())]
    assert len(named) > len(promised) > 40
    assert [row for row in promised if "`tests/" not in row] == []
    assert [test for test in named if not exists(test)] == []
