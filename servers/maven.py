"""Jars of Maven Central, resolved by the Ivy in PySpark's own jars and cached per user.

Ivy runs with its defaults: it resolves from Maven Central, with the proxies and certificates of the user's JVM
(``JAVA_TOOL_OPTIONS``).
"""

from __future__ import annotations

import os
import tarfile
from contextlib import suppress
from pathlib import Path

from tidegate.errors import ServerError
from tidegate.servers.java import java_command, spark_jars
from tidegate.servers.process import Sandbox

__all__ = ["find_jars", "find_unpacked"]

RESOLVE_SECONDS = 600
_ARCHIVE = "tar.gz"
# An archive depends on nothing, and Ivy cannot read every project's description.
_WITHOUT_POMS = (
    '<ivysettings><settings defaultResolver="central"/><resolvers>'
    '<ibiblio name="central" m2compatible="true" usepoms="false"/></resolvers></ivysettings>'
)


def find_jars(coordinate: str, override: str, *, transitive: bool = True) -> Path:
    """Return the folder of the jars of ``group:artifact:version`` with all that it depends on.

    ``transitive=False`` leaves out what it depends on.  ``group:artifact:version:classifier`` names one
    jar, such as a project's tests, and needs ``transitive=False``.
    ``override`` names an environment variable that may point to such a folder; it is then returned,
    and nothing is downloaded.  Otherwise the folder is taken from the user's cache, which is filled
    on first use.  Several processes may do so at once: a folder appears whole or not at all.

    Raises ServerError if the override holds no such jar, or if Maven Central cannot be reached.
    """
    group, artifact, version, *classifier = coordinate.split(":")
    chosen = os.environ.get(override)
    if chosen:
        if not any(Path(chosen).glob(f"{artifact}-*.jar")):
            raise ServerError(f"{override}={chosen} must be a folder of jars, but it holds no {artifact}-*.jar.")
        return Path(chosen)
    folder = _cache() / group / artifact / "-".join([version, *classifier, *([] if transitive else ["alone"])])
    if not folder.is_dir():
        _download(coordinate, folder, override, transitive=transitive)
    return folder


def find_unpacked(coordinate: str, override: str, jar: str) -> Path:
    """Return the folder of an unpacked ``group:artifact:version:classifier``, an archive ``.tar.gz``.

    jar: the name of a jar in it.  The rest is as ``find_jars`` has it.
    """
    group, artifact, version, classifier = coordinate.split(":")
    chosen = os.environ.get(override)
    if chosen:
        if not (Path(chosen) / jar).exists():
            raise ServerError(f"{override}={chosen} must be a folder with {jar}, but it holds none.")
        return Path(chosen)
    folder = _cache() / group / artifact / f"{version}-{classifier}-unpacked"
    if not folder.is_dir():
        _download(coordinate, folder, override, transitive=False, kind=_ARCHIVE)
    return folder


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "tidegate", "maven")


def _download(coordinate: str, folder: Path, override: str, *, transitive: bool, kind: str = "jar") -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    # A sibling of the folder, since only a rename within one file system is atomic.  Ivy's own cache
    # is made in it too: two Ivys that share one may each see the other's half-written files.
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
                f"Java its proxy in JAVA_TOOL_OPTIONS, or let {override} point to a folder that holds the jars."
            )
        for archive in staged.glob(f"*.{_ARCHIVE}"):
            with tarfile.open(archive) as packed:
                packed.extractall(staged, filter="data")
            archive.unlink()
        with suppress(OSError):  # another process was faster, and its folder is as good
            staged.rename(folder)


def _ivy_file(group: str, artifact: str, version: str, classifier: str = "", *, kind: str) -> str:
    """Return the file in which Ivy is told what is wanted, since its command line knows no classifiers."""
    jar = f'<artifact name="{artifact}" type="{kind}" ext="{kind}" m:classifier="{classifier}"/>' if classifier else ""
    return (
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">'
        '<info organisation="tidegate" module="jars"/><configurations defaultconfmapping="default"/>'
        f'<dependencies><dependency org="{group}" name="{artifact}" rev="{version}">{jar}</dependency></dependencies>'
        "</ivy-module>"
    )


def _reason(log: str) -> str:
    """Return Ivy's first error, which is indented below the headline of its summary."""
    errors = log.partition(":::: ERRORS\n")[2] or log.partition(":::: WARNINGS\n")[2] or log
    return errors.partition("\n")[0].strip() or "Ivy gives no reason"
