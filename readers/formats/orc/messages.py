"""The messages of an ORC object: Protocol Buffers (ORC specification v1: orc_proto.proto), compressed in blocks.

Only fields that are needed are declared.  A message that is written again keeps the others as they are.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClassesForFiles

from tidegate.errors import CorruptDataError
from tidegate.readers.decompression import SizeLimit, decompress

HEADER_BYTES = 3  # the size of the header before each block
MOST_BYTES = 1 << 22  # the maximum size of a written block, since a header has 23 bits for the length

_CODECS = {1: "deflate", 2: "snappy", 4: "lz4 block", 5: "zstd"}
# The maximum size of a block that is read.
LARGEST_BLOCK = 1 << 23

_NUMBER, _SIGNED, _BYTES = Field.TYPE_UINT64, Field.TYPE_SINT64, Field.TYPE_BYTES
_FIELDS: dict[str, dict[str, tuple[int, Any]]] = {
    "FileTail": {"postscript": (1, "PostScript"), "footer": (2, "Footer")},
    "PostScript": {
        "footer_length": (1, _NUMBER),
        "compression": (2, _NUMBER),
        "compression_block_size": (3, _NUMBER),
        "metadata_length": (5, _NUMBER),
        "magic": (8000, _BYTES),
    },
    "Footer": {
        "stripes": (3, ["StripeInformation"]),
        "types": (4, ["Type"]),
        "rows": (6, _NUMBER),
        "statistics": (7, ["ColumnStatistics"]),
        "encryption": (10, _BYTES),
        "calendar": (11, _NUMBER),
    },
    "StripeInformation": {
        "offset": (1, _NUMBER),
        "index_length": (2, _NUMBER),
        "data_length": (3, _NUMBER),
        "footer_length": (4, _NUMBER),
        "rows": (5, _NUMBER),
    },
    "Type": {"field_names": (3, [_BYTES])},
    "ColumnStatistics": {"timestamps": (9, "TimestampStatistics")},
    "TimestampStatistics": {"minimum_utc": (3, _SIGNED), "maximum_utc": (4, _SIGNED)},
    "StripeFooter": {"streams": (1, ["Stream"]), "writer_timezone": (3, _BYTES)},
    "Stream": {"kind": (1, _NUMBER), "column": (2, _NUMBER), "length": (3, _NUMBER)},
}
"""The fields of each message, with their numbers and types; the type of a repeated field is in a list."""


@cache
def _classes() -> dict[str, Any]:
    file = FileDescriptorProto(name="tidegate/orc.proto")
    for name, fields in _FIELDS.items():
        described = file.message_type.add(name=name)
        for field, (number, kind) in fields.items():
            label, of = (Field.LABEL_REPEATED, kind[0]) if isinstance(kind, list) else (Field.LABEL_OPTIONAL, kind)
            typed = {"type_name": of} if isinstance(of, str) else {"type": of}
            described.field.add(name=field, number=number, label=label, **typed)
    pool = DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    classes: dict[str, Any] = GetMessageClassesForFiles([file.name], pool)
    return classes


def message(name: str, data: bytes = b"", **fields: Any) -> Any:
    """Return the message of a name with these bytes and fields.  Raises CorruptDataError for bytes that are none."""
    made = _classes()[name](**fields)
    try:
        made.MergeFromString(data)
    except DecodeError:
        raise CorruptDataError("one of its messages is broken") from None
    return made


class Blocks(NamedTuple):
    """An object's orc_proto.CompressionKind, and the maximum size of a decompressed block in bytes."""

    kind: int
    size: int

    def decompressed(self, data: bytes) -> bytes:
        """Decompress blocks; raises CorruptDataError for blocks that are damaged, or have an unknown codec."""
        if self.kind == 0:
            return data
        if self.size > LARGEST_BLOCK:
            raise CorruptDataError(f"its blocks would have {self.size} bytes, and ORC has none beyond {LARGEST_BLOCK}")
        if self.kind not in _CODECS:
            raise CorruptDataError(f"its compression, number {self.kind}, is none of zlib, snappy, lz4 and zstd")
        parts = []
        at = 0
        while at < len(data):
            header = int.from_bytes(data[at : at + HEADER_BYTES], "little")
            at += HEADER_BYTES
            part = data[at : at + (header >> 1)]
            at += header >> 1
            if at > len(data):
                raise CorruptDataError("one of its messages is cut off")
            parts.append(part if header & 1 else self._block(part))
        return b"".join(parts)

    def stored(self, data: bytes) -> bytes:
        """Return blocks that hold these bytes without compression."""
        if self.kind == 0:
            return data
        most = min(self.size, MOST_BYTES)
        parts = [data[at : at + most] for at in range(0, len(data), most)]
        return b"".join((len(part) << 1 | 1).to_bytes(HEADER_BYTES, "little") + part for part in parts)

    def _block(self, part: bytes) -> bytes:
        try:
            return decompress(_CODECS[self.kind], memoryview(part), SizeLimit(self.size, "")).tobytes()
        except CorruptDataError:
            raise CorruptDataError("one of its messages cannot be decompressed") from None
