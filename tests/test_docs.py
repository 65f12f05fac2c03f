"""The documentation names only things that exist, and all that it must name."""

import ast
import re

from tests.sources.kafka.options_table import OF_SPARK, OURS, options_tables
from tests.sources.options_table import placed
from tests.sources.progress import fields_table
from tests.sources.s3 import options_table as table_of_s3
from tests.support.pages import PAGES, ROOT
from tidegate import KafkaSource, S3Source
from tidegate.conformance.rules import all_rules
from tidegate.sources.kafka.java.properties import known


def documented(page):
    """Return the names of the entries in the lists of options."""
    lists = re.findall(r"<!-- made by .*?<!-- end -->", (ROOT / "docs" / page).read_text(), re.DOTALL)
    entries = re.findall(r"^- ((?:`[^`]+`(?:, )?)+)", "\n".join(lists), re.MULTILINE)
    return {name for entry in entries for name in re.findall(r"`([^`]+)`", entry)}


def test_every_option_is_documented_and_every_documented_option_exists():
    options = {name for name in KafkaSource.valid_options() if name != "kafka.*"}
    assert documented("options.md") == options | {f"kafka.{name}" for name in known()}


def test_the_lists_of_options_are_what_the_code_says():
    page = (ROOT / "docs" / "options.md").read_text()
    for subject, table in options_tables().items():
        assert placed(table, subject) in page, "scripts/options-table"
    assert placed(table_of_s3.made_table()) in (ROOT / "docs" / "options-s3.md").read_text(), "scripts/options-table"
    assert placed(fields_table.fields_table(), fields_table.SUBJECT) in fields_table.PAGE.read_text()
    assert {*KafkaSource.valid_options()} >= OF_SPARK
    assert {f"kafka.{name}" for name in OURS} <= documented("options.md")


def test_every_option_of_s3_is_documented_with_it_or_with_those_of_kafka():
    of_s3 = set(S3Source.valid_options())
    own = documented("options-s3.md")
    assert own - of_s3 == set()
    assert of_s3 - own <= documented("options.md")


def test_no_link_in_the_documentation_is_dead():
    assert len(PAGES) >= 5
    dead = [
        (page.name, target)
        for page in PAGES
        for target in re.findall(r"\]\(([^)#]+)", page.read_text())
        if "://" not in target and not (page.parent / target).exists()
    ]
    assert dead == []


def anchors(page):
    """Return the anchors that GitHub gives the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


def test_no_link_in_the_documentation_leads_to_a_heading_that_is_gone():
    links = [
        (page, page.parent / target if target else page, anchor)
        for page in PAGES
        for target, anchor in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", page.read_text())
    ]
    assert len(links) > 50
    assert [(page.name, anchor) for page, target, anchor in links if anchor not in anchors(target)] == []


def test_every_page_says_first_for_whom_it_is():
    begun = {page.name: page.read_text().splitlines()[2] for page in ROOT.glob("docs/*.md")}
    assert [name for name, line in begun.items() if not re.fullmatch(r"\*For .*\.\*", line)] == []


def test_every_page_has_its_place_in_the_site():
    nav = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    placed = set(re.findall(r"- ([\w-]+\.md)$", nav, re.MULTILINE))
    assert {page.name for page in ROOT.glob("docs/*.md")} - placed == set()


def modules():
    """Return the text of each module of the packages."""
    packages = {path.name for path in (ROOT / "src/tidegate").iterdir() if path.is_symlink()}
    return {path: path.read_text() for package in packages for path in (ROOT / package).rglob("*.py")}


def test_every_page_that_a_module_names_exists_and_has_the_numbered_rules():
    named = [(path.name, page) for path, text in modules().items() for page in re.findall(r"docs/[\w-]+\.md", text)]
    assert len(named) > 5
    assert [(module, page) for module, page in named if not (ROOT / page).exists()] == []
    rules = r"[Rr]ules?\b[^.]*?``(docs/[\w-]+\.md)``"
    of_rules = [(path.name, page) for path, text in modules().items() for page in re.findall(rules, text)]
    assert len(of_rules) > 3
    assert [rule for rule in of_rules if rule[1] != "docs/planning.md"] == []
    numbers = {int(n) for text in modules().values() for n in re.findall(r"\brules? (\d)\b", text)}
    headings = {int(n) for n in re.findall(r"^### (\d)\. ", (ROOT / "docs/planning.md").read_text(), re.MULTILINE)}
    assert numbers <= headings == set(range(1, 9))


def test_what_tidegate_says_by_the_questions_is_in_its_code():
    said = (ROOT / "docs/faq.md").read_text().partition("## What tidegate says\n")[2].partition("\n## ")[0]
    sentences = re.findall(r"^### `(.*)`$", said, re.MULTILINE)
    code = re.sub(r'"\s+f?"', "", "".join(modules().values()))
    assert len(sentences) > 5
    assert [sentence for sentence in sentences if sentence not in code] == []


def test_every_folder_of_modules_is_named_on_the_page_of_folders():
    packages = {path.name for path in (ROOT / "src/tidegate").iterdir() if path.is_symlink()}
    entries = re.findall(r"^- ((?:`[^`]+/`(?:, )?)+): ", (ROOT / "docs/folders.md").read_text(), re.MULTILINE)
    named = set(re.findall(r"`([^`]+)/`", " ".join(entries)))
    there = {
        str(path.parent.relative_to(ROOT)) for package in packages for path in (ROOT / package).rglob("__init__.py")
    }
    assert there - named == set()
    assert [folder for folder in named if not (ROOT / folder).is_dir()] == []


def promises():
    """Return each row of the tables of guarantees: the promise, and the names in its last column."""
    rows = [line.strip("| ").split(" | ") for line in (ROOT / "docs/guarantees.md").read_text().splitlines()]
    rows = [row for row in rows if len(row) > 1 and row[-1] != "test"]
    return [(row[0], row[-1]) for row in rows if not row[0].startswith("---")]


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


def test_every_promise_names_a_test():
    promised = promises()
    assert len(promised) > 40
    assert [promise for promise, named in promised if "`tests/" not in named] == []


def test_every_test_that_a_guarantee_names_exists():
    named = re.findall(r"`(tests/[^`]+)`", (ROOT / "docs/guarantees.md").read_text())
    assert len(named) > 60
    assert [name for name in named if not exists(name)] == []
    assert not exists("tests/test_docs.py::test_that_nobody_wrote")
    assert exists(
        "tests/sources/kafka/test_event_time.py::TestFutureTimes::test_by_default_it_neither_parks_its_partition_nor_moves_the_watermark"
    )


def test_every_rule_that_a_guarantee_names_exists():
    rows = [line for line in (ROOT / "docs/guarantees.md").read_text().splitlines() if line.startswith("|")]
    families = "|".join({rule.id.partition("-")[0] for rule in all_rules()})
    named = [rule_id for row in rows for rule_id in re.findall(rf"\b(?:{families})-\d+\b", row)]
    assert len(named) >= 3
    assert {*named} <= {rule.id for rule in all_rules()}
