"""Every module imports only from layers below its own (docs/architecture.md), and folders keep to one subject."""

import ast
from collections import Counter
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tidegate import errors

ROOT = Path(__file__).parents[1]
CORE = {"alignment": 1, "readers": 2, "enumerators": 3, "sources": 4}
ADD_ONS = {"windows": 5, "conformance": 5, "jobs": 6}  # the core knows none of them
LAYERS = {**CORE, **ADD_ONS}
SIDE_PACKAGES = {"servers"}  # may use errors only, and be used by jobs, tests and benchmarks only
NEVER_SPARK = {"alignment", "readers", "enumerators", "servers"}
ON_SPARK = "windows/spark"  # the rest of windows is pure: it uses errors only

# What an add-on uses of the core: names that it publishes.  The command line may use all.
PUBLIC = {
    "windows": {"add_ons", "spark_private"},
    "conformance": {"add_ons", "connector", "spark_private"},
}

# Subjects that know nothing of each other: connectors in every package, and formats among those of readers.
CONNECTORS = {"kafka", "s3"}
FORMATS = {"avro", "binary", "csv", "json", "orc", "parquet", "text"}
MOST_MODULES = 20
MOST_LINES = 450
LEAST_LINES = 75  # of a module that only one room uses: whoever reads it opens the one that uses it, too
ALONE = {
    "servers/guard.py": "a program that a server starts by its path, with nothing else to import",
    "conformance/pytest_plugin.py": "what every run of pytest imports",
}
FACES = {"__init__.py", "__main__.py"}
NO_ROOMS = {"src", "tests", "benchmarks", "examples"}  # faces, and programs

# The tests of a folder are at the same path below tests/, except for these folders and those below them.
TESTED_BY_OTHERS = {
    "conformance/checks": "conformance/mutants",  # a rule is tested by connectors that break it
    "readers/events": "enumerators/events",  # both ends of one connection
    **{f"windows/{name}": "windows" for name in ("assigners", "functions", "state", "triggers")},  # beside Flink's own
}

BLOCKS = {"body", "orelse", "finalbody", "handlers", "cases"}  # they hold statements, which may import


def imported(path):
    """Return the dotted names of all modules that a file imports, at any place in it, also for type checkers."""
    return imported_by(path.read_text())


@cache
def imported_by(text):
    names = []
    left = [ast.parse(text)]
    while left:
        node = left.pop()
        if isinstance(node, ast.Import):
            names.extend(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"a relative import: {ast.unparse(node)}"
            names.extend(f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, (ast.Module, ast.stmt, ast.ExceptHandler, ast.match_case)):
            left += [child for name, block in ast.iter_fields(node) if name in BLOCKS for child in block]
    return names


def violations(root):
    """Return every import that does not look down."""
    sentences = []
    for package in [*LAYERS, *SIDE_PACKAGES]:
        for path in sorted((root / package).rglob("*.py")):
            for name in imported(path):
                top, _, remainder = name.partition(".")
                used = remainder.partition(".")[0]
                is_pure = package == "windows" and not path.is_relative_to(root / ON_SPARK)
                forbidden = (
                    (top == "pyspark" and (package in NEVER_SPARK or is_pure))
                    or (is_pure and top == "tidegate" and not remainder.startswith(("windows.", "errors.")))
                    or (is_pure and remainder.startswith(ON_SPARK.replace("/", ".")))
                    or (top in {*LAYERS, *SIDE_PACKAGES, "tests", "benchmarks", "examples"})
                    or (top == "tidegate" and not may_use(package, used))
                )
                if forbidden:
                    sentences.append(f"{path.relative_to(root)} imports {name}")
    return sentences


def may_use(package, used):
    if used in {package, "errors", "kafka_private", "version"}:
        return True
    if used == "spark_private":
        return package not in NEVER_SPARK
    if package == "jobs":
        return True
    if package in PUBLIC:
        return used in PUBLIC[package]
    if package in SIDE_PACKAGES or used not in LAYERS:
        return False
    return LAYERS[used] < LAYERS[package]


def test_no_module_imports_upwards_and_add_ons_use_public_names_of_the_core():
    assert violations(ROOT) == []


def test_every_error_for_users_begins_with_tidegate_errors():
    """Spark shows the qualified name of an error, and the FAQ tells users to search for its beginning."""
    known = {name for name, found in vars(errors).items() if isinstance(found, type)}
    outside = [
        f"{path.relative_to(ROOT)}: {node.name}"
        for package in [*LAYERS, *SIDE_PACKAGES]
        for path in sorted((ROOT / package).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_") and known & {*map(ast.unparse, node.bases)}
    ]
    assert not outside


def test_every_package_is_known_here():
    linked = {path.name for path in (ROOT / "src/tidegate").iterdir() if path.is_symlink()}
    assert linked == {*LAYERS, *SIDE_PACKAGES}


def modules(root):
    """Return the file of each module by its name."""
    paths = {}
    for top in (*LAYERS, *SIDE_PACKAGES, "src", "tests", "benchmarks", "examples"):
        for path in sorted((root / top).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            if top == "src":
                parts = parts[1:]
            elif top in {*LAYERS, *SIDE_PACKAGES}:
                parts = ("tidegate", *parts)
            paths[".".join(parts).removesuffix(".__init__")] = path
    return paths


def circle(root, node):
    """Return nodes that import each other in a circle, also for type checkers and inside functions; None: none do.

    node: returns the node of a module's path.  Faces of packages, and the modules of ``src``, do not count.
    """
    known = modules(root)
    packages = {*LAYERS, *SIDE_PACKAGES}
    paths = {module: path.relative_to(root) for module, path in known.items()}
    nodes = {m: node(path) for m, path in paths.items() if path.parts[0] in packages and path.name != "__init__.py"}
    graph = {}
    for module, own in nodes.items():
        others = {nodes[name] for name in used(known, known[module]) if name in nodes}
        graph.setdefault(own, set()).update(others - {own})
    return circle_in(graph)


def folder_of(root):
    """Return the node of a folder: a module beside folders stands for itself."""
    above = {path.relative_to(root).parent.parent for path in modules(root).values()}
    return lambda path: str(path if path.parent in above else path.parent)


def room_of(path):
    """Return the node of a folder with all that is below it."""
    return "/".join(path.parent.parts[:2]) if len(path.parts) > 2 else str(path)


def used(known, path):
    """Return the modules that a file imports: an attribute stands for its module."""
    return {name if name in known else name.rpartition(".")[0] for name in imported(path)} & {*known}


def circle_in(graph):
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1]
    return None


def subjects(module):
    """Return the subjects of a module, among those that know nothing of each other."""
    parts = module.split(".")[1:]
    names = {part for part in parts if part in CONNECTORS}
    if parts[:2] == ["readers", "formats"]:
        names |= {part for part in parts[2:3] if part in FORMATS}
    return names


def meddling(root):
    """Return every import of one subject by another."""
    known = modules(root)
    sentences = []
    for module, path in known.items():
        for name in imported(path) if module.startswith("tidegate.") else ():
            used = name if name in known else name.rpartition(".")[0]
            for kinds in (CONNECTORS, FORMATS):
                own, other = subjects(module) & kinds, subjects(used) & kinds
                if own and other - own:
                    sentences.append(f"{module} imports {used}")
    return sentences


@pytest.mark.parametrize("node", [str, folder_of(ROOT), room_of], ids=["modules", "folders", "rooms"])
def test_nothing_imports_each_other_in_a_circle(node):
    assert circle(ROOT, node) is None


def test_a_circle_is_also_one_of_types_of_lazy_imports_and_of_a_module_beside_folders(tmp_path):
    def write(path, text):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)

    write("jobs/a.py", "if TYPE_CHECKING:\n    from tidegate.jobs.b import B\n")
    write("jobs/b.py", "def lazy():\n    from tidegate.jobs.a import A\n")
    assert {*circle(tmp_path, str)} == {"jobs/a.py", "jobs/b.py"}
    write("jobs/b.py", "")
    write("readers/avro/c.py", "from tidegate.readers.formats.d import D\n")
    write("readers/formats/d.py", "")
    write("readers/formats/avro/e.py", "from tidegate.readers.avro.c import C\n")
    assert circle(tmp_path, folder_of(tmp_path)) is None
    assert {*circle(tmp_path, room_of)} == {"readers/avro", "readers/formats"}


def test_connectors_and_formats_know_nothing_of_each_other():
    assert meddling(ROOT) == []


def test_no_folder_is_too_full_to_be_read_at_a_glance():
    counts = Counter(path.parent for path in modules(ROOT).values() if path.name != "__init__.py")
    assert {str(folder): count for folder, count in counts.items() if count > MOST_MODULES} == {}


def test_no_module_is_too_long_for_one_idea():
    lines = {str(path): path.read_text().count("\n") for path in modules(ROOT).values()}
    assert {path: count for path, count in lines.items() if count > MOST_LINES} == {}


def small(root):
    """Return every small module that fewer than two rooms use."""
    known = modules(root)
    rooms = {path: set() for path in known.values()}
    for path in known.values():
        for module in used(known, path):
            rooms[known[module]].add(path.relative_to(root).parent)
    product = {path: users for path, users in rooms.items() if path.relative_to(root).parts[0] not in NO_ROOMS}
    return sorted(
        name
        for path, users in product.items()
        if (name := path.relative_to(root).as_posix()) not in ALONE
        and path.name not in FACES
        and path.read_text().count("\n") < LEAST_LINES
        and len([room for room in users if room.parts[0] != "tests"]) < 2
    )


def test_no_module_of_one_room_is_too_short_to_be_a_module():
    assert small(ROOT) == []


def untested(root):
    """Return every folder of modules without tests at the usual place."""
    packages = {*LAYERS, *SIDE_PACKAGES}
    paths = [path.relative_to(root) for path in modules(root).values() if path.name != "__init__.py"]
    folders = {path.parent.as_posix() for path in paths if path.parts[0] in packages}
    tested = {path.parent.as_posix() for path in paths if path.parts[0] == "tests" and path.name.startswith("test_")}
    mutants = {"tests/conformance/mutants"}  # their names are not those of tests; test_mutants runs them

    def places(folder):
        yield folder
        for above, places in TESTED_BY_OTHERS.items():
            if f"{folder}/".startswith(f"{above}/"):
                yield places

    return sorted(
        folder for folder in folders if not any(f"tests/{place}" in tested | mutants for place in places(folder))
    )


def test_every_folder_has_its_tests_at_the_same_path():
    assert untested(ROOT) == []
