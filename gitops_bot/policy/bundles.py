"""A bundle's files packed into one run of bytes, so that their digest can be taken from what is stored.

The form is that which `core.canonical.bundle_digest` hashes: for each file in byte order of its path: path, a zero
byte, the length in decimal, a zero byte, the bytes.
"""

import re
from collections.abc import Mapping
from typing import Final

from gitops_bot.core.errors import Malformed
from gitops_bot.policy.grammar import MAX_FILES
from gitops_bot.policy.tables import MAX_FILE

MAX_PATH: Final = 255
_LENGTH: Final = re.compile(rb"0|[1-9][0-9]{0,7}", re.ASCII)


def pack(files: Mapping[str, bytes]) -> bytes:
    """Pack files, as paths to bytes; `unpack` gives them back."""
    parts: list[bytes] = []
    for path, content in sorted((path.encode("utf-8"), content) for path, content in files.items()):
        parts += [path, b"\x00", str(len(content)).encode("ascii"), b"\x00", content]
    return b"".join(parts)


def unpack(packed: bytes) -> dict[str, bytes]:
    """Unpack what `pack` packed.

    Raises:
        Malformed: any other bytes: cut short, out of order, a path twice or too long, too many or too large files.
    """
    files: dict[str, bytes] = {}
    at, last = 0, b""
    while at < len(packed):
        path, at = _until_zero(packed, at, MAX_PATH)
        length, at = _until_zero(packed, at, 8)
        if _LENGTH.fullmatch(length) is None or int(length) > MAX_FILE or at + int(length) > len(packed):
            raise Malformed("no length of a file that is there", where="bundle")
        if path <= last or len(files) == MAX_FILES:
            raise Malformed("paths out of order, or too many files", where="bundle")
        try:
            files[path.decode("utf-8")] = packed[at : at + int(length)]
        except UnicodeDecodeError:
            raise Malformed("a path that is not UTF-8", where="bundle") from None
        at, last = at + int(length), path
    return files


def _until_zero(packed: bytes, at: int, most: int) -> tuple[bytes, int]:
    end = packed.find(b"\x00", at, at + most + 1)
    if end < 0:
        raise Malformed("cut short", where="bundle")
    return packed[at:end], end + 1
