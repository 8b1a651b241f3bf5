"""What git keeps in plain files of a bare repository, read without starting git: branch tips and loose objects.

Nothing is decided here: whatever is not such a file, or is not as expected, is None, and git itself is asked. Writing
is always git's, which replaces a ref by a rename (gitrepository-layout, `refs`, `objects`).
"""

import os
import re
import zlib
from pathlib import Path
from typing import Final

_TIP: Final = re.compile(rb"([0-9a-f]{40})\n")
_PACKED: Final = re.compile(rb"^([0-9a-f]{40}) refs/heads/([^\n]+)$", re.MULTILINE)
_HEAD: Final = re.compile(rb"(commit|tree|blob|tag) (\d{1,19})\x00")
LARGEST: Final = 8 * 1024 * 1024
"""Bytes of an object that is read here; a larger one is git's to cut."""


def branches(folder: Path) -> dict[str, str] | None:
    """Read every branch and its tip, by name; None where git must be asked."""
    root = folder / "refs" / "heads"
    if (folder / "reftable").exists() or not root.is_dir():
        return None
    found: dict[str, str] = {}
    # Loose ones first: one that is packed meanwhile is in the packed ones, which are read after it.
    for place, _, names in os.walk(root):
        for name in names:
            if name.endswith(".lock"):
                continue
            path = Path(place, name)
            try:
                tip = _TIP.fullmatch(path.read_bytes())
            except FileNotFoundError:
                continue
            if tip is None:
                return None
            found[path.relative_to(root).as_posix()] = tip[1].decode("ascii")
    try:
        packed = (folder / "packed-refs").read_bytes()
    except FileNotFoundError:
        packed = b""
    for tip_of, name_of in _PACKED.findall(packed):
        found.setdefault(name_of.decode("utf-8", "surrogateescape"), tip_of.decode("ascii"))
    return dict(sorted(found.items()))


def read(folder: Path, oid: str) -> tuple[str, bytes] | None:
    """Read an object's type and bytes by its full id; None where git must be asked."""
    try:
        raw = (folder / "objects" / oid[:2] / oid[2:]).read_bytes()
    except OSError:
        return None
    inflater = zlib.decompressobj()
    try:
        whole = inflater.decompress(raw, LARGEST + 64)
    except zlib.error:
        return None
    head = _HEAD.match(whole)
    if head is None or not inflater.eof or len(whole) - head.end() != int(head[2]):
        return None
    return head[1].decode("ascii"), whole[head.end() :]
