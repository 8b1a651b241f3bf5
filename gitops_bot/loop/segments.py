"""Scores are compared only inside one segment, and a segment's name says goal, objective and regime."""

from typing import Final

OFFSET: Final = 0xCBF29CE484222325
PRIME: Final = 0x100000001B3
FIRST_REGIME: Final = "default"


def fingerprint(*parts: str) -> str:
    """Hash the parts with FNV-1a 64, one byte 0x01 mixed in after each; 16 lower-case hex digits.

    It names a segment and proves nothing: FNV is no cryptographic hash.
    """
    value = OFFSET
    for part in parts:
        for byte in (*part.encode("utf-8", "surrogatepass"), 0x01):
            value = ((value ^ byte) * PRIME) & 0xFFFF_FFFF_FFFF_FFFF
    return f"{value:016x}"
