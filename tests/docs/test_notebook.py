"""The notebook of the tutorial has the page's text and programs; the test of the tutorial runs those."""

from tests.docs.notebook import NOTEBOOK, PAGE, notebook, to_text
from tests.support.pages import blocks


def source(cell):
    return "".join(cell["source"])


def test_the_notebook_is_made_from_the_tutorial():
    assert to_text(notebook(PAGE.read_text())) == NOTEBOOK.read_text(), "scripts/notebook --write"


def test_it_has_every_program_of_the_tutorial_and_its_headings():
    cells = notebook(PAGE.read_text())["cells"]
    code = [source(cell) for cell in cells if cell["cell_type"] == "code"]
    programs = [block.text.rstrip("\n") for block in blocks("docs/tutorial.md") if block.language == "python"]
    assert len(programs) >= 2
    assert [text for text in programs if not any(cell.endswith(text) for cell in code)] == []
    assert len([cell for cell in code if cell.startswith("%%writefile count_orders.py\n")]) == 1
    text = "\n".join(source(cell) for cell in cells if cell["cell_type"] == "markdown")
    assert [line for line in PAGE.read_text().splitlines() if line.startswith("#") and line not in text] == []
