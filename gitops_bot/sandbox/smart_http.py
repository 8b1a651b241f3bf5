"""git over HTTP at `/{owner}/{repo}.git`: fetch and push by the real client (git, `gitprotocol-http`).

After a push the branches have moved by git's own rules and open pull requests follow them; nothing of the repository is
run (hooks are off). Who asks is told by the same tokens as elsewhere, as the password of Basic. Anybody fetches what is
public; a push needs write access. What a client sent reaches git through standard input only.
"""

import base64
import binascii
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from gitops_bot.core.errors import Unavailable
from gitops_bot.sandbox.records import Account, Repository, Role
from gitops_bot.sandbox.refusals import Rejected, not_found
from gitops_bot.sandbox.world import World

SERVICES: Final = ("git-upload-pack", "git-receive-pack")
INFLATED_LIMIT: Final = 64 * 1024 * 1024
"""Bytes of a request after its gzip is undone."""


@dataclass(frozen=True, slots=True)
class GitRequest:
    """One request of a git client; header names in lower case."""

    full_name: str
    service: str
    advertise: bool
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class GitAnswer:
    """What goes out."""

    status: int
    body: bytes
    headers: Mapping[str, str]


def serve(world: World, request: GitRequest) -> GitAnswer:
    """Answer one request under the lock, counted and failed on demand as those of the API."""
    rest = "info/refs" if request.advertise else request.service
    method = "GET" if request.advertise else "POST"
    route, sent = f"/{{owner}}/{{repo}}.git/{rest}", f"/{request.full_name}.git/{rest}"
    with world.lock:
        world.requests[(method, route)] += 1
        fault = world.faults.take(f"{method} {route}", f"{method} {sent}")
    if fault is not None and fault.delay:
        world.sleep(fault.delay)
    with world.lock:
        answer = None
        if fault is None or fault.status is None or fault.after_effect:
            answer = _answered(world, request)
        if fault is not None and fault.status is not None:
            answer = _refused(fault.status, fault.message)
        assert answer is not None
        world.answers[(method, route, answer.status)] += 1
        return answer


def _answered(world: World, request: GitRequest) -> GitAnswer:
    try:
        account = _account(world, request.headers.get("authorization", ""))
        repository = _allowed(world, request, account)
        return _run(world, request, repository, account)
    except Rejected as no:
        return _refused(no.status, no.message)
    except Unavailable:
        return _refused(500, "Internal Server Error")


def _refused(status: int, words: str) -> GitAnswer:
    headers = {"Content-Type": "text/plain; charset=utf-8"}
    if status == 401:
        headers["WWW-Authenticate"] = 'Basic realm="GitHub"'
    return GitAnswer(status, f"{words}\n".encode(), headers)


def _account(world: World, header: str) -> Account | None:
    """Tell who asks; None for nobody in particular."""
    if not header:
        return None
    scheme, _, given = header.partition(" ")
    if scheme.lower() == "basic":
        try:
            given = base64.b64decode(given.strip(), validate=True).decode("utf-8").partition(":")[2]
        except (binascii.Error, UnicodeDecodeError):
            given = ""
    session = world.model.directory.session(given.strip(), world.now())
    if session is None:
        raise Rejected(401, "Invalid username or token. Password authentication is not supported for Git operations.")
    return world.model.directory.accounts[session.account_id]


def _allowed(world: World, request: GitRequest, account: Account | None) -> Repository:
    directory = world.model.directory
    found = directory.repository_named(request.full_name)
    if account is None and (found is None or found.private or request.service == "git-receive-pack"):
        raise Rejected(401, "No anonymous write access.")
    if found is None:
        raise not_found()
    if account is not None:
        directory.require(found, account.id, Role.READ)
        if request.service == "git-receive-pack":
            words = f"Permission to {directory.full_name(found)}.git denied to {account.login}."
            directory.require(found, account.id, Role.WRITE, words)
    return found


def _run(world: World, request: GitRequest, repository: Repository, account: Account | None) -> GitAnswer:
    protocol = request.headers.get("git-protocol", "")
    version = protocol if protocol in {"version=1", "version=2"} else ""
    body = _inflated(request)
    out = world.git(repository).serve(request.service, request.advertise, version, body)
    if request.service == "git-receive-pack" and not request.advertise:
        world.tips(repository, account)
    kind = "advertisement" if request.advertise else "result"
    if request.advertise and version != "version=2":
        line = f"# service={request.service}\n"
        out = f"{len(line) + 4:04x}{line}0000".encode() + out
    headers = {"Content-Type": f"application/x-{request.service}-{kind}", "Cache-Control": "no-cache"}
    return GitAnswer(200, out, headers)


def _inflated(request: GitRequest) -> bytes:
    if request.headers.get("content-encoding", "") not in {"gzip", "x-gzip"}:
        return request.body
    reader = zlib.decompressobj(wbits=31)
    try:
        plain = reader.decompress(request.body, INFLATED_LIMIT)
    except zlib.error:
        raise Rejected(400, "Bad Request") from None
    if not reader.eof:
        raise Rejected(413, "Request Entity Too Large")
    return plain
