"""Who a login is, asked of a forge without a credential: for setting up, before there is any. Nothing decides by it."""

from typing import Final
from urllib.parse import quote

from gitops_bot.core.errors import Unavailable

_SECONDS: Final = 5.0
_MAX_ANSWER: Final = 64 * 1024


def account(api_url: str, login: str) -> tuple[int, str]:
    """Give the number and login of a person's account.

    Raises:
        Unavailable: the forge does not tell, knows nobody of that login, or it is no person's.
    """
    import json

    import requests

    try:
        with requests.get(
            f"{api_url.rstrip('/')}/users/{quote(login, safe='')}",
            headers={"Accept": "application/vnd.github+json", "User-Agent": "gitops-bot"},
            auth=lambda request: request,  # keeps requests from reading a .netrc
            timeout=_SECONDS,
            allow_redirects=False,
            stream=True,
        ) as answer:
            content = next(answer.iter_content(_MAX_ANSWER), b"")
            told = json.loads(content) if answer.status_code == 200 else None
    except (requests.RequestException, ValueError, RecursionError) as error:
        raise Unavailable(f"who {login} is cannot be asked: {type(error).__name__}") from None
    if not isinstance(told, dict):
        raise Unavailable(f"who {login} is, the forge does not say ({answer.status_code})")
    number, name, kind = told.get("id"), told.get("login"), told.get("type")
    if type(number) is not int or not 0 < number < 2**53 or not isinstance(name, str) or kind != "User":
        raise Unavailable(f"{login} is no person's account")
    if name.lower() != login.lower():
        raise Unavailable(f"the forge answers for {login} with another account")
    return number, login
