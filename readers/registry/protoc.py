"""Compiles the source of Protobuf schemas, in a process of its own.

Google's compiler aborts its process at some schemas, such as one with a custom option that is nested 100 levels deep.
Anybody who may write to a topic may register one.  So each schema is compiled by a child, which may take little time,
memory and disk; schemas are few, and compiled once.  Its result has no custom options, which nobody reads here.
"""

from __future__ import annotations

import errno
import signal
import subprocess
import sys
import tempfile
from collections.abc import Collection, Mapping
from importlib.resources import as_file, files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tidegate.errors import ConnectorError, CorruptDataError, DeadlineError

ROOT = "tidegate_registered.proto"
BUSY_S = 20  # of CPU; a schema of 1 MiB takes a second
MOST_S = 120  # in all, on a machine that is busy
MOST_MEMORY = 1 << 30
MOST_OUTPUT = 4 << 20  # of descriptors, of which this process makes 100 times as much
REFUSED = 3  # the exit code for a schema that is none
_KILLED = {signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP}  # by somebody else
_NO_NAME = {errno.EEXIST, errno.EILSEQ, errno.EINVAL, errno.EISDIR, errno.ENAMETOOLONG, errno.ENOTDIR}
_PROGRAM = f"""
import resource, sys
for kind, most in (
    (resource.RLIMIT_CORE, 0),
    (resource.RLIMIT_CPU, {BUSY_S}),  # at this soft limit the signal is SIGXCPU, not SIGKILL
    (resource.RLIMIT_DATA, {MOST_MEMORY}),
    (resource.RLIMIT_FSIZE, {MOST_OUTPUT}),
):
    hard = resource.getrlimit(kind)[1]
    resource.setrlimit(kind, (most if hard < 0 else min(most, hard), hard))
sys.path[:] = {{!r}}
from grpc_tools import protoc
sys.exit(protoc.main(["protoc", *sys.argv[1:]]) and {REFUSED})
"""


def compiled(text: str, references: Mapping[str, str]) -> tuple[Any, int]:
    """Return the descriptor of a file, and the bytes of it and of all files that it imports, in a pool of their own.

    references: the sources of the files that it imports, by name.  It may import the files of Google and of Confluent
        without a reference.

    Raises CorruptDataError if the compiler refuses the schema, or takes more than it may.  Raises DeadlineError or
    ConnectorError if the machine is the reason, and ImportError if the packages of tidegate[registry] are missing.
    """
    from google.protobuf.descriptor_pb2 import FileDescriptorSet
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message import DecodeError

    try:
        descriptors = _descriptors(text, references)
        known = FileDescriptorSet.FromString(descriptors)
        known.DiscardUnknownFields()
        pool = DescriptorPool()
        for file in known.file:
            pool.Add(file)
        return pool.FindFileByName(ROOT), len(descriptors)
    except (DecodeError, KeyError, TypeError, ValueError):
        raise CorruptDataError("its schema is no Protobuf schema") from None


def _descriptors(text: str, references: Mapping[str, str]) -> bytes:
    with tempfile.TemporaryDirectory(prefix="tidegate-protobuf-") as name, as_file(files("grpc_tools")) as tools:
        folder = Path(name).resolve()
        # Each file has a folder of its own, because one may be named "a", and another "a/b".
        sources = {folder / str(number): named for number, named in enumerate([(ROOT, text), *references.items()])}
        for own, (path, content) in sources.items():
            _write(own, path, content)
        target, common = folder / "descriptors", folder / "common"
        common.write_bytes(
            _of_confluent(references) if any("confluent/" in part for _, part in sources.values()) else b""
        )
        arguments = [f"-I{source}" for source in (*sources, tools / "_proto", *_of_google())]
        arguments += [f"--descriptor_set_in={common}", "--include_imports", f"--descriptor_set_out={target}"]
        try:
            ended = subprocess.run(
                [sys.executable, "-c", _PROGRAM.format(sys.path), *arguments, str(folder / "0" / ROOT)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=MOST_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise DeadlineError(f"the Protobuf compiler does not end within {MOST_S} s") from None
        if ended.returncode == REFUSED:
            raise CorruptDataError("its schema is no Protobuf schema")
        if ended.returncode > 0 or -ended.returncode in _KILLED:
            raise ConnectorError(f"the Protobuf compiler ended with the exit code {ended.returncode}")
        if ended.returncode:
            raise CorruptDataError(f"its schema ends the Protobuf compiler by signal {-ended.returncode}")
        return target.read_bytes()


def _write(folder: Path, path: str, content: str) -> None:
    try:
        place = (folder / path).resolve()
        if not place.is_relative_to(folder):
            raise CorruptDataError(f"its schema refers to {path!r}, which lies outside of it")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(content)
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno not in _NO_NAME:
            raise ConnectorError(f"a schema cannot be written to a temporary folder: {error.strerror}") from None
        raise CorruptDataError("its schema refers to a file of a name that no file can have") from None


def _of_google() -> list[Path]:
    """Return the folder with google/type, google/api and others, from the package googleapis-common-protos."""
    spec = find_spec("google.type")
    return [] if spec is None else [Path(place).parent.parent for place in spec.submodule_search_locations or ()]


def _of_confluent(besides: Collection[str]) -> bytes:
    """Return the descriptors of the files that Confluent's client knows, besides those that the schema includes."""
    from confluent_kafka.schema_registry.confluent import meta_pb2
    from confluent_kafka.schema_registry.confluent.type import decimal_pb2
    from google.protobuf import descriptor_pb2

    known = descriptor_pb2.FileDescriptorSet()
    for file in (descriptor_pb2, meta_pb2, decimal_pb2):
        if file.DESCRIPTOR.name not in besides:
            file.DESCRIPTOR.CopyToProto(known.file.add())
    content: bytes = known.SerializeToString()
    return content
