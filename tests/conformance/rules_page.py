"""Makes docs/reference/conformance-rules.md from the docstrings of the rules.

python -m tests.conformance.rules_page writes it.
"""

from pathlib import Path

from tidegate.conformance.rules import AREAS, Tier, all_rules

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "conformance-rules.md"
COMMAND = "scripts/conformance-rules"
HEAD = f"""# Rules of the conformance kit

What the kit checks, for authors of connectors. Each rule says why it is there, when it holds, and where to look when it
fails. A rule is of the contract [tier](../conformance.md#tiers) unless it says otherwise, and is skipped for a
connector that lacks an ability it needs.

Made by `{COMMAND}` from the docstrings in `conformance/checks/`; do not edit it.
"""


def rules_page():
    parts = [HEAD]
    for area, subject in AREAS.items():
        parts.append(f"## {area}: {subject}\n")
        parts += [_rule(rule) for rule in all_rules() if rule.area == area]
    return "\n".join(parts)


def _rule(rule):
    kinds = [rule.tier.name.lower()] * (rule.tier is not Tier.CONTRACT)
    kinds += ["needs " + ", ".join(f"`{name}`" for name in sorted(need.name for need in rule.needs))] * bool(rule.needs)
    kind = f"*{'; '.join(kinds)}.* " if kinds else ""
    text = (kind + " ".join(rule.text.split())).replace(" Look at: ", " **Look at** ").replace("<", "&lt;")
    return f"### {rule.id}: {rule.title}\n\n{text}\n"


if __name__ == "__main__":
    PAGE.write_text(rules_page(), encoding="utf-8")
    print(PAGE)
