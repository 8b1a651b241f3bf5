"""One request to the forge and its answer, with every fault named: nothing else of this package knows HTTP.

An answer comes back with its status and parsed JSON, or `Unavailable` is raised. PyGithub's requester adds the address,
version and credential; the connection under it is ours, because PyGithub's own one repeats POST, sleeps in line, and is
not made for several threads (facts about PyGithub 2.10). No request is ever sent twice from here. What an answer means
is decided in `client`. No error text holds a header, a body that was sent, or a credential.
"""

import json
import logging
import math
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, Final, Protocol
from urllib.parse import urljoin, urlsplit

import requests
import urllib3
from github import Auth, Github
from github.Requester import HTTPSRequestsConnectionClass, RequestsResponse

from gitops_bot.core.errors import Unavailable
from gitops_bot.forge.quoting import visible

TIMEOUT: Final[float] = 10
"""Seconds to connect, and between two pieces of an answer."""

_WHOLE_ANSWER: Final = 60.0  # seconds for all pieces of an answer together
_MAX_ANSWER: Final = 64 * 1024 * 1024  # bytes; a hundred comments of the longest text are under 40 MB
_PIECE: Final = 65_536
_REDIRECTS: Final = 3
_API_VERSION: Final = "2022-11-28"
_REFUSED: Final = (403, 404, 410, 422)  # without a rate limit: the same again is refused again
_TURNED_DOWN: Final = (401, 403)  # it may be the credential
_LONGEST_QUIET: Final = 3_600.0  # seconds; a window of the primary limit
_GROWING: Final = 60.0  # seconds; what GitHub asks for when it names no time (GitHub REST, rate limits)


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP answer: status, headers by lower-case name, and the JSON in it (None when it was empty)."""

    status: int
    headers: Mapping[str, str]
    data: Any

    @property
    def at(self) -> int:
        """The forge's own time of the answer in milliseconds since 1970 UTC; 0 where it said none."""
        try:
            return round(parsedate_to_datetime(self.headers.get("date", "")).timestamp() * 1000)
        except (ValueError, OverflowError):
            return 0


class Turned(Unavailable):
    """The forge answered, and its answer was no: the status, what it said, and its own time in ms (0: it said none)."""

    def __init__(self, what: str, answer: Answer, wait: float | None) -> None:
        said = answer.data.get("message") if isinstance(answer.data, dict) else None
        refused = answer.status in _REFUSED and wait is None
        super().__init__(f"{what}: {answer.status}{_said(answer.data)}", retry_after=wait, refused=refused)
        self.status, self.at = answer.status, answer.at
        self.said = said if isinstance(said, str) else ""


class Credential(Protocol):
    """What shows the forge who asks; it may change from one request to the next."""

    @property
    def scheme(self) -> str:
        """The word before it in the header."""

    def current(self) -> str:
        """Give what to show now.

        Raises:
            Unavailable: there is none now.
        """

    def turned_down(self, shown: str, no: Turned) -> None:
        """Hear that a request which showed it was answered 401 or 403, and no limit was named.

        Raises:
            Unavailable: in place of `no`, where more is known.
        """


@dataclass(frozen=True, slots=True, repr=False)
class Token:
    """A token that stays what it is."""

    value: str
    scheme: str = "token"

    def current(self) -> str:
        """Give it."""
        return self.value

    def turned_down(self, shown: str, no: Turned) -> None:
        """Know nothing better."""


class Transport:
    """Requests to one forge under one credential; safe to share between threads."""

    def __init__(self, api_url: str, credential: str | Credential) -> None:
        self._credential = Token(credential) if isinstance(credential, str) else credential
        # At its finest PyGithub logs whole answers, and the answer to an App holds a token.
        logging.getLogger("github.Requester").setLevel(logging.INFO)
        self._shown = _Shown()
        self._session = requests.Session()
        # An auth callable keeps requests from reading a .netrc; PyGithub sets the header.
        self._session.auth = lambda request: request
        self._github = Github(
            base_url=api_url.rstrip("/"),
            auth=self._shown,
            user_agent="gitops-bot",
            retry=None,
            timeout=math.ceil(TIMEOUT),
            seconds_between_requests=None,
            seconds_between_writes=None,
            api_version=_API_VERSION,
        )
        parts = urlsplit(api_url)
        self._origin = f"{parts.scheme}://{parts.netloc}"
        # All requests go to one origin, so what the environment says of proxies and certificates for it is asked once;
        # requests asks at each, which took a third of its time.
        around = self._session.merge_environment_settings(self._origin, {}, None, None, None)
        self._session.proxies, self._session.verify = dict(around["proxies"]), around["verify"]
        self._session.trust_env = False
        self._quiet_until = 0.0
        self._limited = 0

    def close(self) -> None:
        """Close the connections that are kept open."""
        self._session.close()
        self._github.close()

    def send(
        self,
        verb: str,
        path: str,
        *,
        query: Mapping[str, str | int] | None = None,
        headers: Mapping[str, str] | None = None,
        body: Mapping[str, object] | None = None,
        also: tuple[int, ...] = (),
    ) -> Answer:
        """Send one request once. Any 2xx status and those in `also` come back; all others are raised.

        After an answer that named a rate limit nothing is sent before its time: who goes on asking is shut out for
        longer (GitHub REST, best practices).

        Raises:
            Unavailable: no answer, an answer that is no JSON, or another status (`Turned`); with `retry_after` in
                seconds where a rate limit said or implied one, and `refused` where the same request would be refused
                again.
        """
        quiet = self._quiet_until - time.monotonic()
        if quiet > 0:
            raise Unavailable(f"{verb} {path}: not sent, a rate limit stands", retry_after=quiet)
        shown = self._credential.current()
        self._shown.show(f"{self._credential.scheme} {shown}")
        with _faults(f"{verb} {path}"):
            status, received, text = self._github.requester.requestJson(
                verb, path, dict(query or {}), dict(headers or {}), body, cnx=_Connection(self._session, self._origin)
            )
            answer = Answer(status, received, json.loads(text) if text else None)
        if 200 <= status < 300 or status in also:
            self._limited = 0
            return answer
        no = Turned(f"{verb} {path}", answer, self._keep_quiet(_retry_after(answer)))
        if status in _TURNED_DOWN and no.retry_after is None:
            self._credential.turned_down(shown, no)
        raise no

    def _keep_quiet(self, seconds: float | None) -> float | None:
        """Send nothing for so long; a limit without a time of its own asks for longer each time in a row."""
        if seconds is None:
            return None
        if seconds == _GROWING:
            seconds = _GROWING * 2 ** min(self._limited, 5)
            self._limited += 1
        self._quiet_until = max(self._quiet_until, time.monotonic() + min(seconds, _LONGEST_QUIET))
        return seconds

    def graphql(self, query: str, variables: Mapping[str, object]) -> Mapping[str, Any] | None:
        """Send one GraphQL document; its `data`, or None where the forge knows no such object.

        Raises:
            Unavailable: as `send`, or the answer holds another error.
        """
        path = self._github.requester.graphql_url
        answer = self.send("POST", path, body={"query": query, "variables": dict(variables)})
        document = answer.data if isinstance(answer.data, dict) else {}
        errors, data = document.get("errors"), document.get("data")
        if errors:
            kinds = [error.get("type") if isinstance(error, dict) else None for error in errors]
            if all(kind == "NOT_FOUND" for kind in kinds):
                return None
            wait = self._keep_quiet(_retry_after(answer, limited="RATE_LIMITED" in kinds))
            raise Unavailable(f"GraphQL: {_said(errors[0])}", retry_after=wait)
        if not isinstance(data, dict):
            raise Unavailable("GraphQL: an answer without data")
        return data


@contextmanager
def _faults(what: str) -> Iterator[None]:
    """Name every way in which a request can end without a usable answer.

    From the requester come: RuntimeError for a redirection to another host, ValueError and OverflowError for a header
    or JSON that is no number or no JSON, RecursionError (a RuntimeError) for JSON nested too deep.
    """
    try:
        yield
    except (requests.RequestException, urllib3.exceptions.HTTPError, RuntimeError, ValueError, OverflowError) as error:
        raise Unavailable(f"{what}: {type(error).__name__}") from None


def _said(data: object) -> str:
    message = data.get("message") if isinstance(data, dict) else None
    return f" ({visible(message[:200])})" if isinstance(message, str) else ""


def _retry_after(answer: Answer, *, limited: bool = False) -> float | None:
    """Read how long to wait, in seconds: `retry-after`, else the reset by the forge's own clock, else a minute."""
    said = answer.headers.get("retry-after", "")
    if said.isascii() and said.isdigit() and len(said) < 7:
        return float(said)
    spent = answer.headers.get("x-ratelimit-remaining") == "0"
    message = answer.data.get("message") if isinstance(answer.data, dict) else None
    secondary = isinstance(message, str) and "rate limit" in message.lower()
    if not (limited or answer.status == 429 or (answer.status == 403 and (spent or secondary))):
        return None
    reset = answer.headers.get("x-ratelimit-reset", "")
    if spent and reset.isascii() and reset.isdigit() and len(reset) < 12:
        try:
            now = parsedate_to_datetime(answer.headers.get("date", "")).timestamp()
        except ValueError:
            return _GROWING
        return max(1.0, int(reset) - now)
    return _GROWING


class _Shown(Auth.Auth):
    """The header of the request that this thread is about to send; PyGithub keeps it out of its log."""

    def __init__(self) -> None:
        self._here = threading.local()

    def show(self, header: str) -> None:
        """Set it."""
        self._here.header = header

    @property
    def token_type(self) -> str:
        """The scheme."""
        return str(self._here.header).partition(" ")[0]

    @property
    def token(self) -> str:
        """What follows the scheme."""
        return str(self._here.header).partition(" ")[2]


class _Connection(HTTPSRequestsConnectionClass):
    """The way of one request of PyGithub through our session: bounded in time, size and redirections."""

    def __init__(self, session: requests.Session, origin: str) -> None:
        self.session, self._origin = session, origin

    def request(self, verb: str, url: str, input: Any, headers: dict[str, str], stream: bool = False) -> None:  # noqa: ARG002 # PyGithub's signature; every answer is streamed
        """Note what to send; PyGithub asks for the answer next."""
        self._prepared = (verb, self._origin + url, input, headers)

    def getresponse(self) -> RequestsResponse:
        """Send it once, and read the whole answer. A read is followed where a renamed repository went, on this host.

        PyGithub itself would follow without an end and lose the query, and would wait in line on 202.
        """
        verb, url, data, headers = self._prepared
        until = time.monotonic() + _WHOLE_ANSWER
        for _ in range(1 + _REDIRECTS):
            with self.session.request(
                verb, url, data=data, headers=headers, timeout=(TIMEOUT, TIMEOUT), allow_redirects=False, stream=True
            ) as response:
                if not response.is_redirect:
                    return _Read(response, _whole(response, until))
                url = urljoin(url, response.headers["location"])
                if verb != "GET" or not url.startswith(self._origin + "/"):
                    raise Unavailable(f"{verb}: {response.status_code}, it went elsewhere; configure its new name")
        raise Unavailable(f"{verb}: redirected too often")


def _whole(response: requests.Response, until: float) -> bytes:
    if response.status_code == 202 and response.request.method == "GET":
        raise Unavailable("GET: 202, not ready yet", retry_after=_GROWING)
    pieces, size = [], 0
    for piece in response.iter_content(_PIECE):
        pieces.append(piece)
        size += len(piece)
        if size > _MAX_ANSWER or time.monotonic() > until:
            raise Unavailable("an answer too long or too slow")
    return b"".join(pieces)


class _Read(RequestsResponse):
    """An answer that was read whole; JSON is UTF-8 whatever its content type claims (RFC 8259 section 8.1)."""

    def __init__(self, response: requests.Response, content: bytes) -> None:
        super().__init__(response)
        self._content = content

    def read(self) -> str:
        """Give the text."""
        return self._content.decode("utf-8") if self.status != 304 else ""
