import pytest

from tidegate import OptionError
from tidegate.jobs.output import Noted, Output

BINDING = {"--topic": ["orders"], "--to": None}


@pytest.fixture
def output(tmp_path):
    return Output(tmp_path / "out")


def test_a_new_folder_knows_no_positions(output):
    assert output.noted(BINDING) == Noted()
    assert not output.path.exists()


def test_positions_are_found_again(output):
    with output.claimed(BINDING, {"cluster": "here"}):
        output.note({"orders-0": 7})
    assert Output(output.path).noted(BINDING) == Noted({"orders-0": 7}, {"cluster": "here"})


def test_a_contradiction_names_the_option_and_both_values(output):
    with output.claimed(BINDING):
        pass
    with pytest.raises(OptionError, match=r"^--topic is payments, but it was orders when .*/out was begun"):
        output.noted({**BINDING, "--topic": ["payments"]})
    with pytest.raises(OptionError, match=r"^--to is 2026, but it was not set when"):
        output.noted({**BINDING, "--to": "2026"})


def test_only_one_run_at_a_time_may_write(output):
    second = Output(output.path).claimed(BINDING)
    with output.claimed(BINDING), pytest.raises(OptionError, match="another back-fill is writing"):
        second.__enter__()


def test_a_folder_that_holds_something_else_is_left_alone(output):
    output.path.mkdir()
    assert output.noted(BINDING) == Noted()
    (output.path / "thesis.txt").touch()
    with pytest.raises(OptionError, match="holds something else"):
        output.noted(BINDING)


def test_a_file_or_an_address_is_no_folder(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OptionError, match="holds something else"):
        Output(tmp_path / "file").noted(BINDING)
    with pytest.raises(OptionError, match="must be a path that this machine can write to"):
        Output(tmp_path.relative_to(tmp_path) / "s3a://bucket/out").noted(BINDING)


def test_an_output_without_batches_has_no_rows(output):
    assert output.rows() == 0
