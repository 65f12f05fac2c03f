"""Bytes of tests: damaged at a place, and numbers of variable size as Kafka, Protobuf and Avro write them."""

from __future__ import annotations

from random import Random


def varint(number):
    """A number that is not negative, seven bits a byte, the lowest first."""
    digits = [number >> shift & 0x7F | 0x80 for shift in range(0, max(number.bit_length(), 1), 7)]
    return bytes([*digits[:-1], digits[-1] & 0x7F])


_EDGES = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF, 1 << 62, (1 << 63) - 1)
_EDGES += ((1 << 64) - 1,)


def byte(made: bytearray, at: int, dice: Random) -> None:
    made[at] = dice.randrange(256)


def bit(made: bytearray, at: int, dice: Random) -> None:
    made[at] ^= 1 << dice.randrange(8)


def number(made: bytearray, at: int, dice: Random) -> None:
    width = dice.choice((1, 2, 4, 8))
    edge = dice.choice(_EDGES) + dice.randrange(-2, 3) & (1 << 8 * width) - 1
    made[at : at + width] = edge.to_bytes(width, dice.choice(("little", "big", "big")))


def variable_number(made: bytearray, at: int, dice: Random) -> None:
    made[at : at + 1] = varint(dice.choice(_EDGES) >> dice.choice((0, 0, 1, 8, 31)))


def gap(made: bytearray, at: int, dice: Random) -> None:
    del made[at : at + dice.choice((1, 2, 4, 40))]


def surplus(made: bytearray, at: int, dice: Random) -> None:
    made[at:at] = dice.randbytes(dice.choice((1, 2, 4, 40)))


def doubled(made: bytearray, at: int, dice: Random) -> None:
    made[at:at] = made[at : at + dice.randrange(1, 20)]
