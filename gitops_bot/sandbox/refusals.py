"""How the forge says no: `Rejected` carries the HTTP status and the words that GitHub would use. Pure."""

from collections.abc import Mapping

from gitops_bot.sandbox.records import BODY_LIMIT


class Rejected(Exception):
    """The forge says no: an HTTP status, GitHub's message, and its list of field errors."""

    def __init__(self, status: int, message: str, errors: tuple[Mapping[str, str], ...] = ()) -> None:
        super().__init__(f"{status} {message}")
        self.status = status
        self.message = message
        self.errors = errors


def not_found() -> Rejected:
    """Build GitHub's answer for what is absent and for what the caller may not know of."""
    return Rejected(404, "Not Found")


def invalid(resource: str, field: str, code: str, message: str = "") -> Rejected:
    """Build a 422 with one field error."""
    error = {"resource": resource, "field": field, "code": code}
    return Rejected(422, "Validation Failed", ({**error, "message": message} if message else error,))


def checked_body(resource: str, body: str) -> str:
    """Give a text that may be stored.

    Raises:
        Rejected: it is longer than `BODY_LIMIT` characters, or holds a NUL.
    """
    if len(body) > BODY_LIMIT:
        message = f"Body is too long (maximum is {BODY_LIMIT} characters)"
        raise invalid(resource, "data", "unprocessable", message)
    if "\x00" in body:
        raise invalid(resource, "body", "invalid")
    return body
