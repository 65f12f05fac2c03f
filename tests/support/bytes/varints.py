"""Numbers of variable size, as Kafka, Protobuf and Avro write them."""


def varint(number):
    """A number that is not negative, seven bits a byte, the lowest first."""
    digits = [number >> shift & 0x7F | 0x80 for shift in range(0, max(number.bit_length(), 1), 7)]
    return bytes([*digits[:-1], digits[-1] & 0x7F])
