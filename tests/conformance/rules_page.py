"""Makes docs/conformance-rules.md from the rules.

python -m tests.conformance.rules_page writes it.
"""

from pathlib import Path

from tidegate.conformance.rules import AREAS, Tier, all_rules

PAGE = Path(__file__).parents[2] / "docs" / "conformance-rules.md"
COMMAND = "scripts/conformance-rules"


def rules_page():
    rules = all_rules()
    return "\n".join(
        [
            "# Rules of the conformance kit",
            "",
            "*For authors of connectors whose kit reports a rule.*",
            "",
            f"Made by `{COMMAND}` from `conformance/rules.ini`; do not edit it. Each rule says what goes wrong",
            "without it, how it is tested, and when it passes. When it fails, the kit says where to look.",
            "",
            "A rule is of the contract [tier](conformance.md#tiers) unless it says otherwise. A connector that opts",
            "out of an ability is not tested by the rules that need it.",
            *[line for area in AREAS for line in _area(area, [rule for rule in rules if rule.area == area])],
            "",
        ]
    )


def _area(area, rules):
    return ["", f"## {area}: {AREAS[area]}", *[line for rule in rules for line in _rule(rule)]] if rules else []


def _rule(rule):
    kinds = [rule.tier.name.lower()] * (rule.tier is not Tier.CONTRACT)
    kinds += ["needs " + ", ".join(f"`{name}`" for name in sorted(need.name for need in rule.needs))] * bool(rule.needs)
    kind = f"*{'; '.join(kinds)}.* " if kinds else ""
    said = f"{kind}{rule.purpose} **Tested:** {rule.tested} **Passes:** {rule.passes}"
    return ["", f"### {rule.id}: {rule.title}", "", said.replace("<", "&lt;")]


if __name__ == "__main__":
    PAGE.write_text(rules_page(), encoding="utf-8")
    print(PAGE)
