"""Makes docs/conformance-rules.md from the rules, and from the sins that they are known to find.

python -m tests.conformance.rules_page writes it.
"""

from pathlib import Path

from tests.conformance.mutants import MUTANTS
from tidegate.conformance.rules import AREAS, Level, Tier, all_rules

PAGE = Path(__file__).parents[2] / "docs" / "conformance-rules.md"
COMMAND = "scripts/conformance-rules"


def rules_page():
    rules = all_rules()
    return "\n".join(
        [
            "# Rules of the conformance kit",
            "",
            f"Made by `{COMMAND}` from the rules in `conformance/checks/`; do not edit it.",
            "",
            *_table(("level", "rules", "meaning"), [_counted(rules, level, "level") for level in Level]),
            "",
            *_table(("tier", "rules", "what it takes"), [_counted(rules, tier, "tier") for tier in Tier]),
            "",
            "*Needs* are abilities; a connector that opts out of one is not tested by the rule. *Known to find* are",
            "sins of deliberately broken connectors, each of which `tests/conformance/test_mutants.py` commits.",
            *[line for area in AREAS for line in _area(area, [rule for rule in rules if rule.area == area])],
            "",
        ]
    )


def _counted(rules, value, attribute):
    name = value.name if isinstance(value, Level) else value.name.lower()
    return name, str(sum(getattr(rule, attribute) is value for rule in rules)), value.value


def _area(area, rules):
    if not rules:
        return []
    lines = ["", f"## {area}: {AREAS[area]}", ""]
    lines += _table(("rule", "title", "level", "tier"), [_row(rule) for rule in rules])
    return [*lines, *[line for rule in rules for line in _rule(rule)]]


def _row(rule):
    return f"[{rule.id}](#{_anchor(rule)})", rule.title, rule.level.name, rule.tier.name.lower()


def _rule(rule):
    sins = [mutant.sin for mutant in MUTANTS if mutant.killer == rule.id]
    entries = [
        ("Purpose", rule.purpose),
        ("Tested", rule.tested),
        ("Passes", rule.passes),
        ("Needs", ", ".join(f"`{ability.name}`" for ability in sorted(rule.needs, key=lambda ability: ability.name))),
        ("When it fails, look at", "; ".join(rule.look_at)),
        ("Known to find", "; ".join(sins)),
        ("From", rule.source),
        ("Alone", f"`tidegate.conformance.{rule.test.__name__}`"),
    ]
    kind = f"{rule.level.name}, {rule.tier.name.lower()}."
    return [
        "",
        f"### {_heading(rule)}",
        "",
        kind,
        "",
        *[f"- **{name}**: {_text(text)}" for name, text in entries if text],
    ]


def _text(text):
    return text.replace("<", "&lt;")


def _heading(rule):
    return f"{rule.id}: {rule.title}"


def _anchor(rule):
    """Return the anchor that GitHub gives a heading."""
    kept = [c for c in _heading(rule).lower() if c.isalnum() or c in " -_"]
    return "".join(kept).replace(" ", "-")


def _table(head, rows):
    return [_line(head), _line(["---"] * len(head)), *map(_line, rows)]


def _line(cells):
    escaped = [cell.replace("|", "\\|") for cell in cells]
    return f"| {' | '.join(escaped)} |"


if __name__ == "__main__":
    PAGE.write_text(rules_page(), encoding="utf-8")
    print(PAGE)
