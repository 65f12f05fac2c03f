"""Makes the pages of the rules from their docstrings: those of connectors, and those of any data source of PySpark.

python -m tests.conformance.rules_page writes them.
"""

from pathlib import Path

from tidegate.conformance.lab.lab import Lab
from tidegate.conformance.rules import AREAS, Tier, all_rules

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "reference" / "conformance-rules.md"
DATA_SOURCES = DOCS / "reference" / "data-source-rules.md"
COMMAND = "scripts/conformance-rules"
HEAD = f"""# Rules of the conformance kit

What the kit checks, for authors of connectors. Each rule says why it is there, when it holds, and where to look when it
fails. A rule is of the contract [tier](../conformance.md#tiers) unless it says otherwise, and is skipped for a
connector that lacks an ability it needs.

Made by `{COMMAND}` from the docstrings in `conformance/checks/`; do not edit it. Data sources that know nothing of
tidegate have [rules of their own](data-source-rules.md).
"""
HEAD_OF_DATA_SOURCES = f"""# Rules for any PySpark data source

What the kit checks of [any Python data source](../data-sources.md), why, and where to look when it fails.

Made by `{COMMAND}` from the docstrings in `conformance/checks/`; do not edit it.

"""


def rules_page():
    parts = [HEAD]
    for area, subject in AREAS.items():
        rules = [_rule(rule) for rule in all_rules() if rule.area == area and rule.lab is Lab]
        parts += [f"## {area}: {subject}\n", *rules] if rules else []
    return "\n".join(parts)


def data_sources_page():
    rules = sorted(all_rules(), key=lambda rule: rule.turn[1:])
    return HEAD_OF_DATA_SOURCES + "\n".join(_rule(rule) for rule in rules if rule.lab is not Lab)


def _rule(rule):
    kinds = [rule.tier.name.lower()] * (rule.tier is not Tier.CONTRACT)
    kinds += ["needs " + ", ".join(f"`{name}`" for name in sorted(need.name for need in rule.needs))] * bool(rule.needs)
    kind = f"*{'; '.join(kinds)}.* " if kinds else ""
    text = (kind + " ".join(rule.text.split())).replace(" Look at: ", " **Look at** ").replace("<", "&lt;")
    return f"### {rule.id}: {rule.title}\n\n{text}\n"


if __name__ == "__main__":
    for page, text in ((PAGE, rules_page()), (DATA_SOURCES, data_sources_page())):
        page.write_text(text, encoding="utf-8")
        print(page)
