from pathlib import Path

import pytest

from tests.conformance.data_source.orders import OrdersSource

MODULE = """
from tidegate.conformance import Ability, Abilities, Harness
from tests.conformance.memory.reference import MemoryHarness, MemoryReader, MemorySource

class Sound(MemoryHarness):
    abilities = Abilities().cannot(Ability.BATCH, "nobody asked")

class ForgetfulReader(MemoryReader):
    def read(self, task):
        yield from list(super().read(task))[1:]

class ForgetfulSource(MemorySource):
    def reader(self, state):
        return ForgetfulReader(self)

class Forgetful(MemoryHarness):
    source_class = ForgetfulSource

class Unfinished(Harness):
    def source(self, options):
        return MemorySource(options)

number = 5
"""
HARNESSES = "name a subclass of Harness or DataSourceHarness, or a function that makes one"


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with a module of harnesses; no other test has a module of this name."""
    name = f"outbox_{tmp_path.name}".replace("-", "_")
    (tmp_path / f"{name}.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return name


def test_a_connector_that_conforms_ends_well(tidegate, here):
    code, output, errors = tidegate(
        "conformance", f"{here}:Sound", "--rule", "READ-1", "--rule", "READ-3", "--rule", "SPARK-1"
    )
    assert code == 0
    verdicts = [["passed", "READ-1"], ["passed", "READ-3"], ["skipped", "SPARK-1"]]
    assert [line.split()[:2] for line in errors.splitlines()] == verdicts
    assert "Sound has no BATCH: nobody asked" in errors
    assert output == "Sound conforms: 2 passed, 1 skipped\n"


def test_a_connector_that_does_not_conform_ends_with_1_and_its_failures_explained(tidegate, here):
    code, output, errors = tidegate("conformance", f"{here}:Forgetful", "--rule", "READ-1")
    assert code == 1
    assert errors.startswith("failed ")
    for part in ("missing", "What was done:", "Look at:", "Forgetful does not conform: 1 failed"):
        assert part in output


def test_ctrl_c_explains_what_has_failed_so_far(tidegate, here):
    with Path(f"{here}.py").open("a") as module:
        module.write("""
class Interrupted(Forgetful):
    made = 0

    def __init__(self):
        super().__init__()
        Interrupted.made += 1
        if Interrupted.made == 2:
            raise KeyboardInterrupt
""")
    code, output, errors = tidegate("conformance", f"{here}:Interrupted", "--rule", "READ-1", "--rule", "READ-15")
    assert code == 130
    assert errors.startswith("failed ")
    assert "READ-1 Rows come once and in order: failed" in output
    assert f"{here}:Interrupted does not conform: 1 failed" in output


def test_a_data_source_that_spark_knows_by_its_name_is_checked_by_rules_of_its_own(tidegate, here, spark):
    spark.dataSource.register(OrdersSource)
    with Path(f"{here}.py").open("a") as module:
        module.write("""
from functools import partial
from tests.conformance.data_source.orders import OrdersHarness

class Orders(OrdersHarness):
    def source(self):
        return "kit_orders"

orders = partial(Orders)
""")
    code, output, errors = tidegate("conformance", f"{here}:orders", "--rule", "BATCH-1", "--rule", "SOURCE-1")
    assert code == 0
    assert [line.split()[:2] for line in errors.splitlines()] == [["skipped", "SOURCE-1"], ["passed", "BATCH-1"]]
    assert "Orders has no CLASS: the harness gives only the name 'kit_orders'" in errors
    assert output == "Orders conforms: 1 passed, 1 skipped\n"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("{here}",), "'{here}' names no harness; expected MODULE:HARNESS, such as mypkg.testing:OutboxHarness"),
        (("{here}z:Sound",), "there is no module '{here}z' here or where Python looks"),
        (("json.decoder.sub:Sound",), "there is no module 'json.decoder.sub' here or where Python looks"),
        (("{here}:Sond",), "{here} has no Sond; did you mean 'Sound'?"),
        (("{here}:ForgetfulSource",), f"'{{here}}:ForgetfulSource' is not a harness: {HARNESSES}"),
        (("{here}:number",), f"'{{here}}:number' is not a harness: {HARNESSES}"),
        (("{here}:Unfinished",), "the harness '{here}:Unfinished' lacks create_split"),
        (
            ("{here}:Sound", "--tier", "sparc"),
            "--tier is 'sparc', but contract, spark, faults are the tiers; did you mean 'spark'?",
        ),
    ],
)
def test_a_mistake_is_one_sentence(tidegate, here, arguments, sentence):
    code, output, errors = tidegate("conformance", *(argument.format(here=here) for argument in arguments))
    assert (code, output, errors) == (f"tidegate: {sentence.format(here=here)}", "", "")


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("import no_such_module", "ModuleNotFoundError in {file}, line 1: No module named 'no_such_module'"),
        ("1 / 0", "ZeroDivisionError in {file}, line 1: division by zero"),
        ("def", "SyntaxError in {file}, line 1: "),
    ],
)
def test_a_module_that_cannot_be_imported_is_named_with_the_line(tidegate, here, tmp_path, line, sentence):
    file = tmp_path / f"broken_{here}.py"
    file.write_text(line)
    code, _, _ = tidegate("conformance", f"{file.stem}:Harness")
    assert code.startswith(f"tidegate: importing '{file.stem}' fails: {sentence.format(file=file)}")
