"""Every module imports only from layers below its own (docs/architecture.md), and folders keep to one subject."""

import ast
from collections import Counter
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from tidegate import errors

ROOT = Path(__file__).parents[1]
LAYERS = {"alignment": 1, "windows": 1, "readers": 2, "enumerators": 3, "sources": 4, "conformance": 5, "jobs": 6}
SIDE_PACKAGES = {"servers"}  # may use errors only, and be used by jobs, tests and benchmarks only
NEVER_SPARK = {"alignment", "windows", "readers", "enumerators", "servers"}

# Subjects that know nothing of each other: connectors in every package, and formats among those of readers.
CONNECTORS = {"kafka", "s3"}
FORMATS = {"avro", "binary", "csv", "json", "orc", "parquet", "text"}
MOST_MODULES = 20
MOST_LINES = 450

# The tests of a folder are at the same path below tests/, except for these folders and those below them.
TESTED_ELSEWHERE = {
    "conformance/checks": "conformance/mutants",  # a rule is tested by connectors that break it
    "readers/events": "enumerators/events",  # both ends of one connection
    "windows": "windows",  # all folders together, beside Flink's own operator
}

BLOCKS = {"body", "orelse", "finalbody", "handlers", "cases"}  # they hold statements, which may import


def imported(path, *, for_types=True):
    """Return the dotted names of all modules that a file imports, at any place in it.

    for_types: also the imports of type checkers.
    """
    always, only_for_types = imported_by(path.read_text())
    return [*always, *only_for_types] if for_types else always


@cache
def imported_by(text):
    """Return the imports of a module when it runs, and its imports only for type checkers."""
    names = ([], [])
    left = [(ast.parse(text), False)]
    while left:
        node, for_types = left.pop()
        if isinstance(node, ast.Import):
            names[for_types].extend(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"a relative import: {ast.unparse(node)}"
            names[for_types].extend(f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.stmt):
            asked = isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
            for name, block in ast.iter_fields(node):
                if name in BLOCKS:
                    left += [(child, for_types or (asked and name == "body")) for child in block]
        elif isinstance(node, (ast.Module, ast.ExceptHandler, ast.match_case)):
            left += [(child, for_types) for child in node.body]
    return names


def violations(root):
    """Return every import that does not look down."""
    sentences = []
    for package in [*LAYERS, *SIDE_PACKAGES]:
        for path in sorted((root / package).rglob("*.py")):
            for name in imported(path):
                top, _, rest = name.partition(".")
                used = rest.partition(".")[0]
                forbidden = (
                    (top == "pyspark" and package in NEVER_SPARK)
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
    if package in SIDE_PACKAGES or used not in LAYERS:
        return False
    return LAYERS[used] < LAYERS[package]


def test_no_module_imports_upwards():
    assert violations(ROOT) == []


def test_every_error_for_users_begins_with_tidegate_errors():
    """Spark shows the qualified name of an error, and the FAQ tells users to search for its beginning."""
    known = {name for name, found in vars(errors).items() if isinstance(found, type)}
    elsewhere = [
        f"{path.relative_to(ROOT)}: {node.name}"
        for package in [*LAYERS, *SIDE_PACKAGES]
        for path in sorted((ROOT / package).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_") and known & {*map(ast.unparse, node.bases)}
    ]
    assert not elsewhere


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


def circle(root):
    """Return modules that import each other in a circle, at any place in them; None: there are none.

    Imports only for type checkers do not count.
    """
    known = modules(root)
    return circle_in({module: used(known, path, for_types=False) - {module} for module, path in known.items()})


def circle_of_folders(root):
    """Return folders that import each other in a circle, also for type checkers; None: there are none.

    A module beside folders stands for itself.  Faces of packages do not count.
    """
    known = modules(root)
    packages = {*LAYERS, *SIDE_PACKAGES}
    inside = {m: p for m, p in known.items() if p.relative_to(root).parts[0] in packages and p.name != "__init__.py"}
    above = {path.parent.parent for path in inside.values()}
    nodes = {module: str(path if path.parent in above else path.parent) for module, path in inside.items()}
    graph = {}
    for module, path in inside.items():
        others = {nodes[name] for name in used(known, path) if name in nodes}
        graph.setdefault(nodes[module], set()).update(others - {nodes[module]})
    return circle_in(graph)


def used(known, path, *, for_types=True):
    """Return the modules that a file imports: an attribute stands for its module."""
    return {name if name in known else name.rpartition(".")[0] for name in imported(path, for_types=for_types)} & {
        *known
    }


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


def test_no_modules_import_each_other_in_a_circle():
    assert circle(ROOT) is None


def test_no_folders_import_each_other_in_a_circle():
    assert circle_of_folders(ROOT) is None


def test_connectors_and_formats_know_nothing_of_each_other():
    assert meddling(ROOT) == []


def test_no_folder_is_too_full_to_be_read_at_a_glance():
    counts = Counter(path.parent for path in modules(ROOT).values() if path.name != "__init__.py")
    assert {str(folder): count for folder, count in counts.items() if count > MOST_MODULES} == {}


def test_no_module_is_too_long_for_one_idea():
    lines = {str(path): path.read_text().count("\n") for path in modules(ROOT).values()}
    assert {path: count for path, count in lines.items() if count > MOST_LINES} == {}


def untested(root):
    """Return every folder of modules without tests at the usual place."""
    packages = {*LAYERS, *SIDE_PACKAGES}
    paths = [path.relative_to(root) for path in modules(root).values() if path.name != "__init__.py"]
    folders = {path.parent.as_posix() for path in paths if path.parts[0] in packages}
    tested = {path.parent.as_posix() for path in paths if path.parts[0] == "tests" and path.name.startswith("test_")}
    mutants = {"tests/conformance/mutants"}  # their names are not those of tests; test_mutants runs them

    def places(folder):
        yield folder
        for above, elsewhere in TESTED_ELSEWHERE.items():
            if f"{folder}/".startswith(f"{above}/"):
                yield elsewhere

    return sorted(
        folder for folder in folders if not any(f"tests/{place}" in tested | mutants for place in places(folder))
    )


def test_every_folder_has_its_tests_at_the_same_path():
    assert untested(ROOT) == []
