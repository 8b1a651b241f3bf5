"""Bytes of git become values: raw commits, differences of trees, listings of refs, addresses, the root's message.

What leaves here has the strict form that steps 3 and 4 of the signed channel demand (protocols/signed-approvals.md);
what has not is refused with the code that the protocol blames. Commits are re-hashed here. That a signature stands, and
whose it is, is *not* checked; nor whether an ask exists, nor how large a blob is.

Only one spelling of a commit passes: git drops every header that begins with `gpgsig` before it verifies, and gpg skips
armor headers and text around the armor, so each of these would make a new id under an old signature without any key.
"""

import hashlib
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from gitops_bot.core.asks import AskId
from gitops_bot.core.errors import Malformed, Reason, Refused, refuse
from gitops_bot.core.principals import PrincipalName
from gitops_bot.core.verdicts import Decision
from gitops_bot.signed.evidence import Change, Commit, ObjectId, SignatureKind

MAX_COMMIT: Final = 64 * 1024
MAX_BLOB: Final = 8 * 1024
MAX_DIFFERENCE: Final = 64 * 1024
"""Bytes of one commit's difference that are read; a vote's has about 250."""
MAX_LISTING: Final = 4 * 1024 * 1024
EMPTY_TREES: Final = frozenset(
    {
        "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
        "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321",
    }
)
ROOT_TAG: Final = "gitops-bot/approvals/v1"

_ID: Final = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_HEX: Final = re.compile(rb"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_WHO: Final = (
    rb"[^\x00-\x20\x7f<>](?:[^\x00-\x1f\x7f<>]*[^\x00-\x20\x7f<>])? <[^\x00-\x20\x7f<>]*> "
    rb"(0|[1-9][0-9]{0,10}) [+-](?:0[0-9]|1[0-4])[0-5][0-9]"
)
_IDENTITY: Final = re.compile(_WHO)
_BEGIN_PGP: Final = b"-----BEGIN PGP SIGNATURE-----"
_BEGIN_SSH: Final = b"-----BEGIN SSH SIGNATURE-----"
_BEGINS: Final[Mapping[bytes, SignatureKind]] = {_BEGIN_PGP: SignatureKind.OPENPGP, _BEGIN_SSH: SignatureKind.SSH}
# Folded, as it stands in the header: each further line begins with one blank.
_BODY: Final = rb"(?: [A-Za-z0-9+/]{1,76}={0,2}\n)+"
_PGP: Final = _BEGIN_PGP + rb"\n \n" + _BODY + rb"(?: =[A-Za-z0-9+/]{4}\n)? -----END PGP SIGNATURE-----"
_SSH: Final = _BEGIN_SSH + rb"\n" + _BODY + rb" -----END SSH SIGNATURE-----"
# A SHA-256 repository keeps its signature in a header of another name (git, hash-function-transition).
_SIGNATURE_HEADERS: Final[Mapping[int, bytes]] = {40: b"gpgsig ", 64: b"gpgsig-sha256 "}
_FORMS: Final[Mapping[int, re.Pattern[bytes]]] = {
    digits: re.compile(
        rb"tree ([0-9a-f]{%(digits)d})\n(?:parent ([0-9a-f]{%(digits)d})\n)?author %(who)s\ncommitter %(who)s\n"
        rb"%(header)s(%(pgp)s|%(ssh)s)\n\n"
        % {b"digits": digits, b"who": _WHO, b"header": header, b"pgp": _PGP, b"ssh": _SSH}
    )
    for digits, header in _SIGNATURE_HEADERS.items()
}
"""The one form of a commit up to its message: what does not match is refused, whatever else may be said of it."""
_BASE64_LINE: Final = re.compile(rb"=?[A-Za-z0-9+/]+={0,2}")
_PATH: Final = re.compile(
    rb"approvals/([0-9a-z]{2})/([0-7][0-9a-hjkmnp-tv-z]{25})/([a-z][a-z0-9-]{0,31})\.(approve|deny|revoke)"
    rb"\.([a-z0-9]{8,32})"
)
_ENTRY: Final = re.compile(
    rb":([0-7]{6}) ([0-7]{6}) ([0-9a-f]{40}|[0-9a-f]{64}) ([0-9a-f]{40}|[0-9a-f]{64}) ([A-Z])[0-9]*\x00([^\x00]+)\x00"
)
_LISTED: Final = re.compile(rb"([0-9a-f]{40}|[0-9a-f]{64})\t([^\n]+)")
_HOST: Final = r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?)(?::[0-9]{1,5})?"
_PLACE: Final = r"/[A-Za-z0-9._~/+@=-]{1,1024}"
_URLS: Final[Mapping[str, re.Pattern[str]]] = {
    "file": re.compile(rf"file://{_PLACE}"),
    "https": re.compile(rf"https://{_HOST}{_PLACE}"),
    "ssh": re.compile(rf"ssh://(?:[A-Za-z_][A-Za-z0-9_.-]{{0,63}}@)?{_HOST}{_PLACE}"),
    "http": re.compile(rf"http://(?:127\.0\.0\.1|localhost)(?::[0-9]{{1,5}})?{_PLACE}"),
}


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a difference: modes and ids of before and after, `status` as git's letter."""

    status: str
    mode: str
    before: ObjectId
    after: ObjectId
    path: bytes


@dataclass(frozen=True, slots=True)
class Address:
    """Where a repository is fetched from: its address without any secret, and the one protocol that is allowed."""

    url: str
    scheme: str


def read_id(text: str, *, where: str = "object id") -> ObjectId:
    """Read a full object id.

    Raises:
        Malformed: it is abbreviated, in upper case, or none.
    """
    if not _ID.fullmatch(text):
        raise Malformed("not a full object id in lower-case hex", where=where)
    return ObjectId(text)


def hash_object(kind: str, content: bytes, like: ObjectId) -> ObjectId:
    """Compute the id that git gives an object of this kind, by the algorithm of the id `like`."""
    algorithm = hashlib.sha1 if len(like) == 40 else hashlib.sha256
    return ObjectId(algorithm(b"%s %d\0%s" % (kind.encode(), len(content), content), usedforsecurity=False).hexdigest())


def read_commit(oid: ObjectId, raw: bytes) -> Commit | Refused:
    """Read a raw commit in the strict form (step 3). Its parent, its tree and its signature are *not* looked at."""
    if len(raw) > MAX_COMMIT:
        return refuse(Reason.TOO_LARGE, f"The commit has {len(raw)} bytes; a vote's has at most {MAX_COMMIT}.")
    if hash_object("commit", raw, oid) != oid:
        return _malformed("Its bytes do not hash to its id.")
    if b"\0" in raw:
        return _malformed("It holds a NUL.")
    found = _FORMS[len(oid)].match(raw)
    if found is None or not _is_text(raw[: found.end()]):
        return _explain(raw, len(oid))
    tree, parent, _, seconds, folded = found.groups()
    headers = found.start(5) - len(_SIGNATURE_HEADERS[len(oid)])
    return Commit(
        id=oid,
        raw=raw,
        tree=ObjectId(tree.decode("ascii")),
        parent=ObjectId(parent.decode("ascii")) if parent is not None else None,
        committed_at=int(seconds) * 1000,
        message=raw[found.end() :],
        payload=raw[:headers] + raw[found.end() - 1 :],
        armor=folded.replace(b"\n ", b"\n") + b"\n",
        kind=_BEGINS[folded[: len(_BEGIN_PGP)]],
    )


def _explain(raw: bytes, digits: int) -> Refused:
    """Say what is wrong with a commit that has not the one form; it is refused whatever is found."""
    head, end, _ = raw.partition(b"\n\n")
    if not end:
        return _malformed("No empty line ends its headers.")
    if b"\r" in head:
        return _malformed("A header holds a carriage return.")
    lines = head.split(b"\n")
    place = 1
    while place < len(lines) and lines[place].startswith(b"parent "):
        place += 1
    fault = _fixed_fault(lines, place, digits)
    if fault is not None:
        # Git stops at the first header out of its order, and takes the commit for a root.
        return replace(fault, facts={"parents": sum(line.startswith(b"parent ") for line in lines)})
    return _signature_fault(lines[place + 2 :], _SIGNATURE_HEADERS[digits], merge=place > 2)


def _fixed_fault(lines: Sequence[bytes], place: int, digits: int) -> Refused | None:
    """Find what is wrong with tree, parents (up to `place`), author and committer."""
    if not lines[0].startswith(b"tree ") or not _is_id(lines[0][5:], digits):
        return _malformed("It does not begin with one tree.")
    if not all(_is_id(line[7:], digits) for line in lines[1:place]):
        return _malformed("A parent is no full object id.")
    for at, name in ((place, b"author "), (place + 1, b"committer ")):
        line = lines[at] if at < len(lines) else b""
        if not line.startswith(name):
            return _malformed(f"Where {name.decode().strip()} belongs stands {_shown(line)}.")
        if not _IDENTITY.fullmatch(line, len(name)) or not _is_text(line):
            return _malformed(f"The line of the {name.decode().strip()} is not `name <address> seconds zone`.")
    return None


def _signature_fault(rest: Sequence[bytes], header: bytes, *, merge: bool) -> Refused:
    """Say what is wrong with what follows the committer, which is to be one signature header and nothing else."""
    starts = [at for at, line in enumerate(rest) if not line.startswith(b" ")]
    strange = [rest[at] for at in starts if not rest[at].startswith(header)]
    if strange or (rest and starts[:1] != [0]):
        return _malformed(f"It has a header that no vote has: {_shown(strange[0] if strange else rest[0])}.")
    if merge:
        return refuse(Reason.MERGE_COMMIT)
    if not rest:
        return refuse(Reason.UNSIGNED)
    if len(starts) > 1:
        return refuse(Reason.MULTIPLE_SIGNATURES, "It has two signature headers.")
    return _armor_fault([rest[0][len(header) :], *(line[1:] for line in rest[1:])])


def _armor_fault(lines: Sequence[bytes]) -> Refused:
    """Say what is wrong with an armor that is not in the one form."""
    begins = [at for at, line in enumerate(lines) if line in _BEGINS]
    if not begins or (begins[0] > 0 and lines[0].startswith(b"-----BEGIN ")):
        return refuse(Reason.BAD_SIGNATURE, "Its signature header holds no detached OpenPGP or SSH signature.")
    if len(begins) > 1:
        return refuse(Reason.MULTIPLE_SIGNATURES, "Its signature header holds more than one armor.")
    if begins[0] > 0:
        return _malformed("Text stands before the armor.")
    ending = lines[0].replace(b"BEGIN", b"END")
    if ending not in lines:
        return refuse(Reason.BAD_SIGNATURE, "The armor has no end.")
    end = lines.index(ending)
    if end + 1 < len(lines):
        blank = not any(lines[end + 1 :])
        return _malformed(
            "A blank line stands after the armor, as a forge's web editor signs; sign with your own key."
            if blank
            else "Text stands after the armor."
        )
    body = lines[1:end]
    if any(b":" in line for line in body):
        return _malformed("The armor has a header line, such as a comment or a version.")
    words = [stripped for line in body if (stripped := line.strip())]
    if words and all(_BASE64_LINE.fullmatch(word) for word in words):
        return _malformed("The lines of the armor are not as git, gpg and ssh-keygen write them.")
    return refuse(Reason.BAD_SIGNATURE, "The armor holds no signature.")


def read_changes(commit: ObjectId, raw: bytes) -> tuple[Entry, ...]:
    """Read one commit's part of `git diff-tree --stdin -r --raw -z --no-renames`: all entries, none for no change.

    Raises:
        Malformed: it is not git's output for this commit.
    """
    return _entries(commit.encode("ascii") + b"\0", raw) if raw else ()


def read_comparison(before: ObjectId, after: ObjectId, raw: bytes) -> tuple[Entry, ...]:
    """Read what `git diff-tree --stdin --raw -z --no-renames` says of two trees; folders are entries here. Git ends
    the line of ids with a line feed all the same.

    Raises:
        Malformed: it is not git's output for these trees.
    """
    return _entries(f"{before} {after}\n".encode("ascii"), raw)


def _entries(begin: bytes, raw: bytes) -> tuple[Entry, ...]:
    if not raw.startswith(begin):
        raise Malformed("does not begin with what was compared", where="difference")
    entries, at = [], len(begin)
    while at < len(raw):
        found = _ENTRY.match(raw, at)
        if found is None:
            raise Malformed("an entry is not in git's raw form", where="difference")
        at = found.end()
        before, after = ObjectId(found[3].decode()), ObjectId(found[4].decode())
        entries.append(Entry(found[5].decode(), found[2].decode(), before, after, found[6]))
    return tuple(entries)


def read_change(entries: Sequence[Entry], *, person: PrincipalName) -> Change | Refused:
    """Read a vote's one change (step 4) on a person's branch. That the ask exists and the blob's size are *not*
    checked."""
    paths = [entry.path for entry in entries]
    if len(set(paths)) < len(paths):
        return refuse(Reason.FETCH_REFUSED, "A tree holds two entries of one name.")
    if len(entries) != 1:
        what = "nothing" if not entries else f"{len(entries)} files"
        return refuse(Reason.UNEXPECTED_CHANGE, f"It changes {what}.")
    entry = entries[0]
    if entry.status != "A":
        return refuse(Reason.UNEXPECTED_CHANGE, f"{_shown(entry.path)} is not added but changed ({entry.status}).")
    if entry.mode != "100644":
        return refuse(Reason.UNEXPECTED_CHANGE, f"{_shown(entry.path)} has the mode {entry.mode}, not 100644.")
    found = _PATH.fullmatch(entry.path)
    if found is None:
        return refuse(Reason.BAD_PATH, f"It is {_shown(entry.path)}.")
    shard, ask, name, decision, suffix = (part.decode("ascii") for part in found.groups())
    if not ask.endswith(shard):
        return refuse(Reason.BAD_PATH, f"The ask's folder must be {ask[-2:]}, its last two characters.")
    if name != person:
        return refuse(Reason.WRONG_BRANCH, f"The file names {name}, the branch is {person}'s.", named=name)
    return Change(found[0].decode("ascii"), person, AskId(ask), Decision(decision), suffix, entry.after)


def root_message(repository: str, environment: str, person: str) -> str:
    """Give the whole message of the root of a person's branch, without a line end."""
    return f"{ROOT_TAG} {repository} {environment} {person}"


def read_root(message: bytes, *, repository: str, environment: str, person: str) -> bool:
    """Tell whether a message is that of this branch's root; the one line end that git adds may stand behind it."""
    wanted = root_message(repository, environment, person).encode("utf-8")
    return message in {wanted, wanted + b"\n"}


def read_listing(raw: bytes, wanted: Collection[str]) -> Mapping[str, ObjectId | None]:
    """Read `git ls-remote --refs` for the full names that are wanted; None where two ids are given for one name.

    Raises:
        Malformed: it is longer than `MAX_LISTING`, or not git's listing.
    """
    if len(raw) > MAX_LISTING or (raw and not raw.endswith(b"\n")):
        raise Malformed("too long or cut off", where="listing of refs")
    names = {name.encode("ascii"): name for name in wanted}
    listed: dict[str, ObjectId | None] = {}
    for line in raw.split(b"\n")[:-1]:
        found = _LISTED.fullmatch(line)
        if found is None:
            raise Malformed("a line is not `id<tab>name`", where="listing of refs")
        name = names.get(found[2])
        if name is not None:
            oid = ObjectId(found[1].decode("ascii"))
            listed[name] = oid if listed.get(name, oid) == oid else None
    return listed


def read_address(url: str) -> Address:
    """Read a repository's address: `https://`, `ssh://`, `file://`, or `http://` on this host, without a secret.

    Raises:
        Malformed: it is none of these.
    """
    scheme = url.partition("://")[0]
    pattern = _URLS.get(scheme)
    if pattern is None or not pattern.fullmatch(url):
        raise Malformed(
            "not https://host/path, ssh://[user@]host/path, file:///path or http://127.0.0.1/path in plain characters "
            "(credentials belong into a file)",
            where="address of the repository",
        )
    return Address(url, scheme)


def _is_id(text: bytes, digits: int) -> bool:
    return len(text) == digits and _HEX.fullmatch(text) is not None


def _is_text(line: bytes) -> bool:
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _malformed(detail: str) -> Refused:
    return refuse(Reason.MALFORMED_COMMIT, detail)


def _shown(untrusted: bytes) -> str:
    """Show untrusted bytes in printable ASCII, cut."""
    return ascii(untrusted[:80].decode("utf-8", "replace")) + ("..." if len(untrusted) > 80 else "")
