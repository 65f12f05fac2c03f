"""The documentation names what there is, and nothing else."""

import re
from pathlib import Path

from tidegate import KafkaSource, S3Source
from tidegate.sources.kafka_properties import known

ROOT = Path(__file__).parents[1]


def documented(page):
    """Return the names in the first column of the tables of options."""
    rows = re.findall(r"^\| (`[^|]*) \|", (ROOT / "docs" / page).read_text(), re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`([^`]+)`", row)}


def test_every_option_is_documented_and_every_documented_option_exists():
    options = {name for name in KafkaSource.valid_options() if name != "kafka.*"}
    assert documented("options.md") == options | {f"kafka.{name}" for name in known()}


def test_every_option_of_s3_is_documented_with_it_or_with_those_of_kafka():
    of_s3 = set(S3Source.valid_options())
    own = documented("options-s3.md")
    assert own - of_s3 == set()
    assert of_s3 - own <= documented("options.md")


def test_no_link_in_the_documentation_is_dead():
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("benchmarks/*.md")]
    assert len(pages) >= 5
    dead = [
        (page.name, target)
        for page in pages
        for target in re.findall(r"\]\(([^)#]+)", page.read_text())
        if "://" not in target and not (page.parent / target).exists()
    ]
    assert dead == []


def test_every_test_that_a_guarantee_names_exists():
    named = re.findall(r"`(tests/[\w/.]+)`", (ROOT / "docs/guarantees.md").read_text())
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []
