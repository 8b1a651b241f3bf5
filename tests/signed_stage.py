"""A bare repository with branches of approvals in which any commit can be built, sound or wrong in one place.

`Recipe` is a commit whose every part can be replaced before it is written; `SignedStage` writes objects literally, so
that git need not agree with them, and keeps each person's branch. What it makes by default is what the protocol asks
for (signed-approvals, Branches); `tests/unit/signed/test_stage.py` holds that against the real programs. Times are
seconds since 1970 UTC. By default all is long past, so that no engine's own clock has an opinion.
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import pygit2

from gitops_bot.core.asks import AskId
from gitops_bot.core.canonical import Digest, action_bytes, action_hash
from gitops_bot.core.principals import PrincipalName
from gitops_bot.core.verdicts import Decision
from gitops_bot.signed.rendering import Request, render_file, render_message
from tests import signed_keys as keys

NOW: Final = 1_717_243_200
"""2024-06-01T12:00:00Z: when commits are signed unless a stage has another time."""
OPENED: Final = NOW - 3_600
EXPIRES: Final = NOW + 86_400
REPOSITORY: Final = "github.com/acme/ops"
REPOSITORY_ID: Final = 7001
ENVIRONMENT: Final = "production"
ASK: Final = AskId("01jdxm2r7q8v9w0a1b2c3d4e5f")
PEOPLE: Final = ("alice", "bob", "carol")
FILE, EXECUTABLE, SYMLINK, GITLINK, FOLDER = (b"100644", b"100755", b"120000", b"160000", b"40000")

Entry = tuple[bytes, bytes, str]
"""Mode, name and object id of a tree's entry."""


def transfer(amount_minor: int = 125_000, to: str = "DE89370400440532013000", **changes: Any) -> Request:
    """Give the request to transfer some money, which most votes here are about; anything in it can be changed."""
    params = {"amount_minor": amount_minor, "currency": "EUR", "to": to}
    values: dict[str, Any] = {
        "repository": REPOSITORY,
        "repository_id": REPOSITORY_ID,
        "environment": ENVIRONMENT,
        "epoch": 1,
        "ask": ASK,
        "verb": "payments.transfer",
        "params": params,
        "requester": PrincipalName("worker"),
        "run": "run-1",
        "run_version": 1,
        "policy": Digest("sha256:" + "ab" * 32),
        "opened_at": OPENED * 1000,
        "expires_at": EXPIRES * 1000,
        "summary": f"Transfer {amount_minor // 100:,}.{amount_minor % 100:02} EUR to {to}",
    }
    values |= changes
    if "action_hash" not in values:
        names = ("repository", "environment", "verb", "params")
        values["action_hash"] = action_hash(action_bytes(*(values[name] for name in names)))
    return Request(**values)


@dataclass(frozen=True, slots=True)
class Recipe:
    """A commit before it is written. Header lines are without their line end.

    `signed` are further header lines under the signature, `beside` further lines that stand outside of it; `armor`
    changes the signature's text and `raw` the finished bytes.
    """

    tree: str
    parents: tuple[str, ...] = ()
    message: bytes = b""
    person: str = "alice"
    at: int = NOW
    signer: keys.Signer | None = None
    author: bytes | None = None
    committer: bytes | None = None
    signed: tuple[bytes, ...] = ()
    beside: tuple[bytes, ...] = ()
    header: bytes = b"gpgsig"
    armor: Callable[[bytes], bytes] = bytes
    raw: Callable[[bytes], bytes] = bytes

    @property
    def headers(self) -> list[bytes]:
        """The header lines that a signature covers."""
        who = b"%s <%s@example.com> %d +0000" % (self.person.encode(), self.person.encode(), self.at)
        return [
            b"tree " + self.tree.encode(),
            *(b"parent " + parent.encode() for parent in self.parents),
            b"author " + (who if self.author is None else self.author),
            b"committer " + (who if self.committer is None else self.committer),
            *self.signed,
        ]

    @property
    def payload(self) -> bytes:
        """What is signed."""
        return b"\n".join(self.headers) + b"\n\n" + self.message

    def bytes(self) -> bytes:
        """Sign it and give the object's content."""
        lines = self.headers
        if self.signer is not None:
            text = self.armor(self.signer(self.payload, self.at))
            lines.append(folded(self.header, text))
        return self.raw(b"\n".join([*lines, *self.beside]) + b"\n\n" + self.message)


def folded(name: bytes, text: bytes) -> bytes:
    """Write a header of several lines, each further one behind a blank, without the last line end."""
    return name + b" " + text.removesuffix(b"\n").replace(b"\n", b"\n ")


def object_id(kind: str, content: bytes) -> str:
    """Give the id that git gives an object."""
    return hashlib.sha1(b"%s %d\0" % (kind.encode(), len(content)) + content).hexdigest()


def vote_path(ask: str, person: str, decision: str, suffix: str = "0123abcd") -> bytes:
    """Give the path of a vote's file."""
    return f"approvals/{ask[-2:]}/{ask}/{person}.{decision}.{suffix}".encode()


def root_message(person: str, *, repository: str = REPOSITORY, environment: str = ENVIRONMENT) -> bytes:
    """Give the whole message of a branch's root commit."""
    return f"gitops-bot/approvals/v1 {repository} {environment} {person}\n".encode()


@dataclass
class SignedStage:
    """The repository that people push to. `signers` says how each signs unless a test says otherwise."""

    folder: Path
    request: Request = field(default_factory=transfer)
    signers: dict[str, keys.Signer] = field(
        default_factory=lambda: {name: keys.openpgp(name) for name in (*PEOPLE, "bot", "worker", "outsider")}
    )
    now: int = NOW
    suffixes: int = 0

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.repository = pygit2.init_repository(str(self.folder), bare=True)
        self.empty = self.tree([])

    @property
    def url(self) -> str:
        """The address to fetch it from."""
        return f"file://{self.folder}"

    def write(self, kind: str, content: bytes) -> str:
        """Write an object of a kind as it is."""
        kinds = {"commit": pygit2.enums.ObjectType.COMMIT, "tree": pygit2.enums.ObjectType.TREE}
        oid = str(self.repository.write(kinds.get(kind, pygit2.enums.ObjectType.BLOB), content))
        assert oid == object_id(kind, content)
        return oid

    def read(self, oid: str) -> bytes:
        """Read an object's content."""
        return self.repository.odb.read(pygit2.Oid(hex=oid))[1]

    def blob(self, content: bytes) -> str:
        """Write a blob."""
        return self.write("blob", content)

    def tree(self, entries: Iterable[Entry]) -> str:
        """Write a tree with its entries in the given order."""
        return self.write(
            "tree", b"".join(mode + b" " + name + b"\0" + bytes.fromhex(oid) for mode, name, oid in entries)
        )

    def entries(self, tree: str) -> list[Entry]:
        """Read a tree's entries."""
        content, found, at = self.read(tree), [], 0
        while at < len(content):
            end = content.index(b"\0", at)
            mode, name = content[at:end].split(b" ", 1)
            found.append((mode, name, content[end + 1 : end + 21].hex()))
            at = end + 21
        return found

    def grown(self, tree: str, path: bytes, oid: str, mode: bytes = FILE) -> str:
        """Give a tree with one entry more, or another at its path, folders included, sorted as git sorts."""
        head, _, rest = path.partition(b"/")
        entries = {name: (kind, name, known) for kind, name, known in self.entries(tree)}
        if rest:
            kind, _, below = entries.get(head, (FOLDER, head, self.empty))
            entries[head] = (FOLDER, head, self.grown(below if kind == FOLDER else self.empty, rest, oid, mode))
        else:
            entries[head] = (mode, head, oid)
        return self.tree(sorted(entries.values(), key=lambda entry: entry[1] + (b"/" if entry[0] == FOLDER else b"")))

    def commit(self, recipe: Recipe) -> str:
        """Write a commit."""
        return self.write("commit", recipe.bytes())

    def tree_of(self, commit: str) -> str:
        """Give a commit's tree."""
        return self.read(commit).split(b"\n", 1)[0].removeprefix(b"tree ").decode()

    def ref(self, person: str) -> str:
        """Name a person's branch."""
        return f"refs/heads/gated/{self.request.environment}/approvals/{person}"

    def tip(self, person: str) -> str | None:
        """Give the tip of a person's branch."""
        found = self.repository.references.get(self.ref(person))
        return None if found is None else str(found.target)

    def push(self, person: str, oid: str) -> str:
        """Set a person's branch, forward or anywhere."""
        return self.point(self.ref(person), oid)

    def point(self, ref: str, oid: str) -> str:
        """Set any ref; git's rules for names hold, those for objects do not."""
        path = self.folder / ref
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{oid}\n")
        return oid

    def delete(self, person: str) -> None:
        """Delete a person's branch."""
        (self.folder / self.ref(person)).unlink()

    def root_recipe(self, person: str, **changes: Any) -> Recipe:
        """Give the recipe of a branch's root."""
        signer = self.signers.get(person)
        return replace(Recipe(self.empty, (), root_message(person), person, self.now - 7_200, signer), **changes)

    def root(self, person: str, **changes: Any) -> str:
        """Begin a person's branch."""
        return self.push(person, self.commit(self.root_recipe(person, **changes)))

    def recipe(
        self,
        person: str = "alice",
        decision: str = "approve",
        *,
        request: Request | None = None,
        parent: str | None = None,
        path: bytes | None = None,
        file: bytes | None = None,
        mode: bytes = FILE,
        **changes: Any,
    ) -> Recipe:
        """Give the recipe of a vote on top of the person's branch, which is begun if need be; `changes` are fields of
        the recipe that differ, among them `tree`."""
        asked = self.request if request is None else request
        above = parent or self.tip(person) or self.root(person)
        self.suffixes += 1
        where = vote_path(asked.ask, person, decision, f"{self.suffixes:08x}") if path is None else path
        content = render_file(asked, PrincipalName(person), Decision(decision)) if file is None else file
        if "tree" not in changes:
            changes["tree"] = self.grown(self.tree_of(above), where, self.blob(content), mode)
        message = render_message(asked, PrincipalName(person), Decision(decision))
        made = Recipe(changes["tree"], (above,), message, person, self.now, self.signers.get(person))
        return replace(made, **changes)

    def vote(self, person: str = "alice", decision: str = "approve", **changes: Any) -> str:
        """Commit a vote on a person's branch and give its id; see `recipe`."""
        return self.push(person, self.commit(self.recipe(person, decision, **changes)))

    def votes(self, person: str, asks: Sequence[AskId], **changes: Any) -> list[str]:
        """Commit an approve of each ask."""
        return [self.vote(person, request=replace(self.request, ask=ask), **changes) for ask in asks]
