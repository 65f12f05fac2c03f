"""What people see of a ledger."""

from tidegate.jobs.ledger.show import show_why
from tidegate.jobs.ledger.why import Finding, Why


def test_a_key_gives_a_terminal_no_commands(capsys):
    show_why([Why("in/\x1b[2Jä.json", (Finding("unknown", "nothing\rat all"),))], as_json=False)
    assert capsys.readouterr().out == "in/\\x1b[2Jä.json\n  unknown: nothing\\rat all\n"
