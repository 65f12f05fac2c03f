"""Finds Java and the jars that it runs: those of an installed PySpark, and others from Maven Central.

The Ivy among PySpark's jars resolves the others, with its defaults and the proxies and certificates of the user's JVM
(``JAVA_TOOL_OPTIONS``).  Each user has a cache.  What Ivy fetches must have the digest that ``jars.sha256`` has for it.
This module neither imports PySpark nor starts Spark.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from tidegate.errors import ServerError
from tidegate.servers.process import Sandbox

OLDEST_JAVA = 17  # Spark 4 and Kafka 4 need the same version


def find_java() -> str:
    """Return the path of the ``java`` that Spark would start: that of ``JAVA_HOME``, or else that of the ``PATH``.

    Raises ServerError without one, or if it is older than Java 17.
    """
    home = os.environ.get("JAVA_HOME")
    executable = shutil.which("java", path=Path(home, "bin")) if home else shutil.which("java")
    if executable is None:
        where = f"JAVA_HOME={home} holds no bin/java" if home else "JAVA_HOME is unset and the PATH holds no java"
        raise ServerError(f"Java {OLDEST_JAVA} or newer is needed, as for Spark, but {where}")
    version = _major_version(executable)
    if version < OLDEST_JAVA:
        raise ServerError(f"Java {OLDEST_JAVA} or newer is needed, as for Spark, but {executable} is Java {version}")
    return executable


def java_command(temporary: Path) -> list[str]:
    """Return the start of a command line for a Java program that may be killed at any time."""
    return [find_java(), "-XX:-UsePerfData", f"-Djava.io.tmpdir={temporary}"]


@lru_cache
def _major_version(java: str) -> int:
    banner = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    match = re.search(r'version "(?:1\.)?(\d+)', banner)
    if match is None:
        raise ServerError(f"{java} does not report its version: {banner.strip()!r}")
    return int(match[1])


def spark_jars(*patterns: str) -> list[Path]:
    """Return the jars of the installed PySpark whose file names match one of the patterns.

    Raises ServerError if PySpark is missing, or has no jar for one of the patterns.
    """
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ServerError("PySpark is needed for its jars, but it is not installed")
    folder = Path(spec.origin).parent / "jars"
    jars: list[Path] = []
    for pattern in patterns:
        matches = sorted(folder.glob(pattern))
        if not matches:
            raise ServerError(f"PySpark's folder {folder} holds no {pattern}")
        jars += matches
    return jars


RESOLVE_SECONDS = 600
DIGESTS = Path(__file__).with_name("jars.sha256")  # lines as sha256sum writes them
_ARCHIVE = "tar.gz"
# An archive has no dependencies, and Ivy cannot read the POM of every project.
_WITHOUT_POMS = (
    '<ivysettings><settings defaultResolver="central"/><resolvers>'
    '<ibiblio name="central" m2compatible="true" usepoms="false"/></resolvers></ivysettings>'
)


def find_jars(coordinate: str, override: str, *, transitive: bool = True) -> Path:
    """Return a folder with the jars of an artifact and of its dependencies.

    The folder is in the user's cache, which is filled on first use.  Several processes may do so at once: a folder
    appears as a whole, or not at all.

    coordinate: ``group:artifact:version``.  ``group:artifact:version:classifier`` names one jar, such as a project's
        tests, and needs ``transitive=False``.
    override: the name of an environment variable.  If it is set to such a folder, that is returned, and nothing is
        downloaded.
    transitive: False: leave out the dependencies.

    Raises ServerError if the override has no such jar, if Maven Central cannot be reached, or if a file that came has
    another digest than ``DIGESTS`` has for it.
    """
    _, artifact, version, *classifier = coordinate.split(":")
    name = "-".join([version, *classifier, *([] if transitive else ["alone"])])
    return _folder(coordinate, override, f"{artifact}-*.jar", name, transitive=transitive)


def find_unpacked(coordinate: str, override: str, jar: str) -> Path:
    """Return a folder with an unpacked archive, ``.tar.gz``; see ``find_jars`` for the cache and the errors.

    coordinate: ``group:artifact:version:classifier``.
    jar: the name of a jar in the archive, by which a folder of ``override`` is checked.
    """
    _, _, version, classifier = coordinate.split(":")
    return _folder(coordinate, override, jar, f"{version}-{classifier}-unpacked", transitive=False, kind=_ARCHIVE)


def _folder(coordinate: str, override: str, jar: str, name: str, *, transitive: bool, kind: str = "jar") -> Path:
    """Return the folder of an override, which must hold a jar, or else one in the cache by its name."""
    chosen = os.environ.get(override)
    if chosen:
        if not any(Path(chosen).glob(jar)):
            raise ServerError(f"{override}={chosen} must be a folder of jars, but it holds no {jar}")
        return Path(chosen)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "tidegate", "maven")
    folder = cache.joinpath(*coordinate.split(":")[:2], name)
    if not folder.is_dir():
        _download(coordinate, folder, override, transitive=transitive, kind=kind)
    return folder


def _download(coordinate: str, folder: Path, override: str, *, transitive: bool, kind: str) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    # The sandbox is beside the folder, since a rename is atomic only within one file system.  Ivy's cache is in the
    # sandbox as well, since two Ivys with the same cache may read each other's unfinished files.
    with Sandbox(folder.parent, prefix=".resolving-") as sandbox:
        staged = sandbox.folder / "jars"
        command = [*java_command(sandbox.folder), "-jar", str(spark_jars("ivy-*.jar")[0])]
        wanted = sandbox.folder / "ivy.xml"
        wanted.write_text(_ivy_file(*coordinate.split(":"), kind=kind))
        command += ["-cache", str(sandbox.folder / "ivy"), "-ivy", str(wanted)]
        if kind == _ARCHIVE:
            settings = sandbox.folder / "ivysettings.xml"
            settings.write_text(_WITHOUT_POMS)
            command += ["-settings", str(settings)]
        command += ["-confs", "default", "-types", *dict.fromkeys([kind, "bundle"])]
        command += [] if transitive else ["-notransitive"]
        command += ["-retrieve", f"{staged}/[artifact]-[revision](-[classifier]).[ext]"]
        process = sandbox.spawn(command, sandbox.folder / "ivy.log")
        if process.wait(RESOLVE_SECONDS) != 0:
            raise ServerError(
                f"{coordinate} could not be resolved from Maven Central ({_reason(process.log.read_text())}): give "
                f"Java its proxy in JAVA_TOOL_OPTIONS, or let {override} point to a folder that holds the jars"
            )
        _verify(sorted(staged.iterdir()), coordinate, override)
        for archive in staged.glob(f"*.{_ARCHIVE}"):
            with tarfile.open(archive) as packed:
                # Pythons before 3.10.12 and 3.11.4 know no filters (PEP 706), and refuse them as an argument.
                packed.extraction_filter = getattr(tarfile, "data_filter", None)
                packed.extractall(staged)  # noqa: S202 - it has the digest of a release
            archive.unlink()
        with suppress(OSError):  # another process was faster, and its folder has the same jars
            staged.rename(folder)


def _verify(files: Sequence[Path], coordinate: str, override: str) -> None:
    digests = {name: digest for digest, name in map(str.split, DIGESTS.read_text().splitlines())}
    for file in files:
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        if digest != digests.get(file.name):
            raise ServerError(
                f"{file.name} of {coordinate} came from Maven Central with the SHA-256 digest {digest}, but "
                f"{DIGESTS.name} of tidegate has {digests.get(file.name, 'none')}: nothing of it is used.  If you "
                f"trust other jars, let {override} point to a folder that holds them"
            )


def _ivy_file(group: str, artifact: str, version: str, classifier: str = "", *, kind: str) -> str:
    """Return the file that names the artifact for Ivy, whose command line knows no classifiers."""
    jar = f'<artifact name="{artifact}" type="{kind}" ext="{kind}" m:classifier="{classifier}"/>' if classifier else ""
    return (
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">'
        '<info organisation="tidegate" module="jars"/><configurations defaultconfmapping="default"/>'
        f'<dependencies><dependency org="{group}" name="{artifact}" rev="{version}">{jar}</dependency></dependencies>'
        "</ivy-module>"
    )


def _reason(log: str) -> str:
    """Return Ivy's first error, which is below the headline of its summary."""
    errors = log.partition(":::: ERRORS\n")[2] or log.partition(":::: WARNINGS\n")[2] or log
    return errors.partition("\n")[0].strip() or "Ivy gives no reason"
