"""An executor is fixed by the bundle: one address or one pinned program, and no parameter reaches either."""

import re
from typing import Final

from gitops_bot.core.errors import Malformed
from gitops_bot.policy.model import Executor, HttpExecutor, ProcessExecutor
from gitops_bot.policy.params import printable
from gitops_bot.policy.tables import Table

MAX_ARGV: Final = 64
_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,63}", re.ASCII)
_SHA256: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)
_HOST: Final = r"(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?){0,10}"
_PATH: Final = r"(?::[1-9][0-9]{0,4})?/[A-Za-z0-9._~/-]{0,500}"
_URL: Final = re.compile(rf"https://{_HOST}{_PATH}|http://(?:localhost|127\.0\.0\.1|\[::1\]){_PATH}", re.ASCII)


def read_executor(raw: object, where: str) -> Executor:
    """Read `{ http = … }` or `{ process = […] }`. That the program's file has its digest is checked when it runs.

    Raises:
        Malformed: both or neither, an address that is not a plain https one (http on loopback only), a relative
            program, or no digest.
    """
    table = Table(raw, where, ("http", "process", "idempotent", "token_file", "sha256"))
    if ("http" in table) == ("process" in table):
        raise Malformed("must have exactly one of http, process", where=where)
    return _http(table) if "http" in table else _process(table)


def _http(table: Table) -> HttpExecutor:
    url, token_file = table.text("http"), table.text_or_none("token_file")
    if _URL.fullmatch(url) is None:
        message = "http must be an https address with a path, without user, query and fragment (http on loopback only)"
        raise Malformed(message, where=table.where)
    if "sha256" in table:
        raise Malformed("sha256 has no meaning beside http", where=table.where)
    if token_file is not None and _NAME.fullmatch(token_file) is None:
        raise Malformed("token_file is a name in the keys folder of the host, no path", where=table.where)
    return HttpExecutor(url, table.flag("idempotent"), token_file)


def _process(table: Table) -> ProcessExecutor:
    words = table.items("process")
    argv = tuple(word for word in words if isinstance(word, str))
    if len(argv) != len(words):
        raise Malformed("process must be a list of strings", where=table.where)
    if not 0 < len(argv) <= MAX_ARGV or not argv[0].startswith("/") or "/../" in f"{argv[0]}/":
        raise Malformed("process begins with the absolute path of the program", where=table.where)
    if not all(len(word) <= 1_024 and printable(word) for word in argv):
        raise Malformed("process holds printable words of at most 1024 characters", where=table.where)
    if "token_file" in table:
        raise Malformed("token_file has no meaning beside process", where=table.where)
    digest = table.text("sha256")
    if _SHA256.fullmatch(digest) is None:
        raise Malformed("sha256 is the program's digest, 64 lower-case hex digits", where=table.where)
    return ProcessExecutor(argv, digest, table.flag("idempotent"))
