"""The only reader of the environment: gives frozen `Settings`; nobody below asks the environment again.

`gitops-bot.toml`, then `GITOPS_BOT_<SECTION>_<KEY>` variables, then flags of a command. Unknown keys are errors with
the nearest known one. Secrets come from files only (`*_file`), must be the owner's alone, and are never shown.
"""

import difflib
import os
import stat
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlsplit

from gitops_bot.core.durations import parse_duration
from gitops_bot.core.errors import ConfigError, Malformed
from gitops_bot.settings import (
    CaptureSettings,
    FleetSettings,
    ForgeSettings,
    NotifySettings,
    Settings,
    SignedSettings,
    Starter,
    WorkspaceSettings,
)

__all__ = [
    "DEFAULTS", "Settings", "Starter", "actions_environment", "agent_environment", "is_degraded", "load",
    "person_environment", "secret", "starter",
]  # fmt: skip

FILE_NAME: Final = "gitops-bot.toml"
_AGENT_NAMES: Final = ("GITOPS_BOT_URL", "GITOPS_BOT_TOKEN", "LOOP_REGIME")
_EXEMPT: Final = frozenset({*_AGENT_NAMES, "GITOPS_BOT_CONFIG"})
_STARTER: Final = (
    "CONTROL_ADDR", "CONTROL_TOKEN_FILE", "LOOP_ID", "LOOP_AGENT", "LOOP_RESUME", "AGENT_TOKEN_FILE",
)  # fmt: skip
_PERSON_NAMES: Final = (
    "HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "PATH", "TERM", "GPG_TTY", "GNUPGHOME",
    "SSH_AUTH_SOCK", "SSH_ASKPASS", "SSH_ASKPASS_REQUIRE", "SSH_SK_PROVIDER", "DISPLAY", "WAYLAND_DISPLAY",
    "XAUTHORITY", "DBUS_SESSION_BUS_ADDRESS",
)  # fmt: skip
_ACTIONS_NAMES: Final = (
    "GITHUB_EVENT_NAME", "GITHUB_EVENT_PATH", "GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY",
    "ACTIONS_ID_TOKEN_REQUEST_URL", "ACTIONS_ID_TOKEN_REQUEST_TOKEN",
)  # fmt: skip
_EXEMPT_PREFIX: Final = "GITOPS_BOT_TEST_"
_MAX_FILE: Final = 1024 * 1024

DEFAULTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "": {"policies": "policies", "state": ".gitops-bot", "repository": ""},
    "database": {"url_file": "", "owner_url_file": ""},
    "forge": {
        "kind": "github", "repositories": [], "api_url": "https://api.github.com", "token_file": "",
        "app_id": 0, "installation": 0, "private_key_file": "", "webhook_secret_files": [],
        "actions_issuer": "https://token.actions.githubusercontent.com",
        "actions_workflow": ".github/workflows/gitops-bot.yml",
        "max_comment_age": "7d", "poll_fast": "2s", "poll_slow": "30s",
    },
    "signed": {
        "environment": "production", "trust_file": "", "shared_uid": "", "remote": "", "repository_id": 0,
        "keys_dir": "", "bot_key_file": "", "poll": "10s", "max_fetch_age": "2m", "skew": "5m",
    },
    "workspace": {
        "bind": "127.0.0.1:8480", "origin": "", "name": "gitops-bot", "passkey_rest": "24h", "idle": "12h",
        "lasts": "7d", "oidc_issuer": "", "oidc_client_id": "", "oidc_client_secret_file": "",
    },
    "broker": {"operator": "", "degraded": False, "gpu_reserve": 0, "resume_grace": "2m"},
    "asks": {"repeat_after": "24h", "max_open_gated": 5, "max_open_bound": 20},
    "capture": {
        "program": [], "timeout": "2h", "attempts": 2, "cost": "time on the measured endpoint", "publish": "",
        "slots": 1,
    },
    "fleet": {
        "isolation": "bwrap", "run_as": "", "remote": [], "slots": 4, "drain": "10s", "lease": "30s",
    },
    "notify": {"hook": [], "hook_kinds": [], "urls": [], "urls_file": ""},
}  # fmt: skip
"""Every key with its default, by section; docs/configuration.md says what each means (a test compares)."""


def agent_environment() -> dict[str, str]:
    """Give what a loop hands to its agent and judge: the three names, a missing one as the empty string."""
    return {name: os.environ.get(name, "") for name in _AGENT_NAMES}


def person_environment() -> dict[str, str]:
    """Give what a person's own programs need to find their folders and keys and to ask for a PIN; what is not set is
    left out."""
    return {name: os.environ[name] for name in _PERSON_NAMES if os.environ.get(name)}


def actions_environment() -> dict[str, str]:
    """Give what GitHub's runner tells a step of itself, a missing one as the empty string (GitHub, variables)."""
    return {name: os.environ.get(name, "") for name in _ACTIONS_NAMES}


def starter() -> Starter | None:
    """Read from the environment which loop started this process; None when a person or a service manager did."""
    found = {name: os.environ.get(f"BROKER_{name}", "") for name in _STARTER}
    if not found["CONTROL_ADDR"]:
        return None
    token, written = found["CONTROL_TOKEN_FILE"], found["AGENT_TOKEN_FILE"]
    return Starter(
        address=found["CONTROL_ADDR"],
        token_file=Path(token) if token else None,
        loop=found["LOOP_ID"] or "loop",
        agent=found["LOOP_AGENT"],
        resume=found["LOOP_RESUME"] == "1",
        agent_token_file=Path(written) if written else None,
    )


def own_environment() -> dict[str, str]:
    """Give the whole environment, for services of ours that this process starts in its place; never for an agent."""
    return dict(os.environ)


def is_degraded() -> bool:
    """Tell whether the environment says that there is no approval surface (`BROKER_DEGRADED=1`)."""
    return os.environ.get("BROKER_DEGRADED", "") in ("1", "true")


def load(path: Path | None = None) -> Settings:
    """Read the settings from a file (default: `$GITOPS_BOT_CONFIG`, else `gitops-bot.toml` here) and the environment.

    A file that is named must exist; without any, defaults stand.

    Raises:
        ConfigError: an unknown key, a value of another type, or a secret file that others may read.
    """
    named = path or (Path(os.environ["GITOPS_BOT_CONFIG"]) if os.environ.get("GITOPS_BOT_CONFIG") else None)
    file = named or Path(FILE_NAME)
    document: dict[str, Any] = {}
    if named is not None or file.exists():
        document = _read(file)
    return _settings(file.absolute().parent, _merge(document, os.environ))


def _read(file: Path) -> dict[str, Any]:
    try:
        raw = file.read_bytes()
        return tomllib.loads(raw[:_MAX_FILE].decode("utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read {file}: {error.strerror}", fix="name the file with --config") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} is no TOML: {error}") from error


def _merge(document: Mapping[str, Any], environment: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    merged = {section: dict(keys) for section, keys in DEFAULTS.items()}
    for name, value in document.items():
        if isinstance(value, dict):
            if name not in DEFAULTS or name == "":
                raise _unknown(f"[{name}]", [f"[{known}]" for known in DEFAULTS if known])
            for key, one in value.items():
                _put(merged, name, key, one)
        else:
            _put(merged, "", name, value)
    for variable, text in environment.items():
        if not variable.startswith("GITOPS_BOT_") or variable in _EXEMPT or variable.startswith(_EXEMPT_PREFIX):
            continue
        section, key = _variable(variable)
        _put(merged, section, key, _typed(DEFAULTS[section][key], text, variable))
    return merged


def _unknown(name: str, known: list[str]) -> ConfigError:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
    return ConfigError(
        f"unknown setting {name}", fix=f"did you mean {near[0]}?" if near else f"known: {', '.join(known)}"
    )


def _put(merged: dict[str, dict[str, Any]], section: str, key: str, value: Any) -> None:
    known = DEFAULTS[section]
    shown = f"[{section}] {key}" if section else key
    if key not in known:
        raise _unknown(shown, [f"[{section}] {name}" if section else name for name in known])
    if type(value) is not type(known[key]):
        raise ConfigError(f"{shown} must be a {type(known[key]).__name__}, not a {type(value).__name__}")
    if isinstance(value, list) and not all(isinstance(item, str) for item in value):
        raise ConfigError(f"{shown} must be a list of strings")
    merged[section][key] = value


def _variable(variable: str) -> tuple[str, str]:
    wanted = variable.removeprefix("GITOPS_BOT_").lower()
    names = {
        f"{section}_{key}" if section else key: (section, key) for section, keys in DEFAULTS.items() for key in keys
    }
    if wanted not in names:
        raise _unknown(variable, [f"GITOPS_BOT_{name.upper()}" for name in names])
    return names[wanted]


def _typed(default: Any, text: str, variable: str) -> Any:
    if isinstance(default, bool):
        if text not in ("0", "1", "true", "false"):
            raise ConfigError(f"{variable} must be true or false")
        return text in ("1", "true")
    if isinstance(default, int):
        if not text.isascii() or not text.isdigit():
            raise ConfigError(f"{variable} must be a number")
        return int(text)
    if isinstance(default, list):
        return [item for item in text.split(",") if item]
    return text


def _settings(root: Path, values: Mapping[str, Mapping[str, Any]]) -> Settings:
    top, forge, capture = values[""], values["forge"], values["capture"]
    state = root / top["state"]

    def path(text: str) -> Path | None:
        return root / text if text else None

    def time(section: str, key: str) -> int:
        try:
            return parse_duration(values[section][key])
        except Malformed as error:
            raise ConfigError(f"[{section}] {key}: {error.message}", fix="write 90s, 30m, 2h or 7d") from error

    host, _, port = values["workspace"]["bind"].rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise ConfigError("[workspace] bind must be HOST:PORT", fix='bind = "127.0.0.1:8480"')
    if forge["kind"] != "github":
        raise ConfigError(f"[forge] kind {forge['kind']!r} is unknown", fix='kind = "github"')
    url = _secret(path(values["database"]["url_file"])) or f"sqlite:///{quote(str(state / 'gitops-bot.db'))}"
    repositories = tuple(forge["repositories"])
    api_host = urlsplit(forge["api_url"]).hostname or ""
    forge_host = "github.com" if api_host == "api.github.com" else api_host
    return Settings(
        root=root,
        state=state,
        policies=root / top["policies"],
        repository=top["repository"] or (f"{forge_host}/{repositories[0]}" if repositories else "local"),
        environment=values["signed"]["environment"],
        trust_file=path(values["signed"]["trust_file"]) or state / "trust.json",
        shared_uid=values["signed"]["shared_uid"],
        database_url=url,
        owner_url=_secret(path(values["database"]["owner_url_file"])) or url,
        forge=_forge(forge, root, path, lambda key: time("forge", key)),
        signed=_signed(values["signed"], path, state, lambda key: time("signed", key)),
        capture=_capture(capture, path(capture["publish"]), time("capture", "timeout")),
        workspace=_workspace(values["workspace"], path, lambda key: time("workspace", key)),
        fleet=_fleet(values["fleet"], lambda key: time("fleet", key)),
        notify=_notify(values["notify"], path(values["notify"]["urls_file"])),
        bind_host=host,
        bind_port=int(port),
        origin=values["workspace"]["origin"] or f"http://localhost:{port}",
        name=values["workspace"]["name"],
        operator=values["broker"]["operator"],
        degraded=values["broker"]["degraded"],
        gpu_reserve=values["broker"]["gpu_reserve"],
        resume_grace=time("broker", "resume_grace"),
        repeat_after=time("asks", "repeat_after"),
        max_open_gated=values["asks"]["max_open_gated"],
        max_open_bound=values["asks"]["max_open_bound"],
    )


def _forge(
    values: Mapping[str, Any], root: Path, path: Callable[[str], Path | None], time: Callable[[str], int]
) -> ForgeSettings:
    return ForgeSettings(
        kind=values["kind"],
        repositories=tuple(values["repositories"]),
        api_url=values["api_url"],
        token_file=path(values["token_file"]),
        app_id=values["app_id"],
        installation=values["installation"],
        private_key_file=path(values["private_key_file"]),
        webhook_secret_files=tuple(root / name for name in values["webhook_secret_files"]),
        actions_issuer=values["actions_issuer"],
        actions_workflow=values["actions_workflow"],
        max_comment_age=time("max_comment_age"),
        poll_fast=time("poll_fast"),
        poll_slow=time("poll_slow"),
    )


def _workspace(
    values: Mapping[str, Any], path: Callable[[str], Path | None], time: Callable[[str], int]
) -> WorkspaceSettings:
    return WorkspaceSettings(
        0 if values["passkey_rest"] == "0" else time("passkey_rest"),
        time("idle"),
        time("lasts"),
        values["oidc_issuer"],
        values["oidc_client_id"],
        path(values["oidc_client_secret_file"]),
    )


def _signed(
    values: Mapping[str, Any], path: Callable[[str], Path | None], state: Path, time: Callable[[str], int]
) -> SignedSettings:
    return SignedSettings(
        remote=values["remote"] or None,
        repository_id=values["repository_id"],
        keys_dir=path(values["keys_dir"]) or state / "keys",
        bot_key_file=path(values["bot_key_file"]),
        poll=time("poll"),
        max_fetch_age=time("max_fetch_age"),
        skew=time("skew"),
    )


def _capture(values: Mapping[str, Any], publish: Path | None, timeout: int) -> CaptureSettings:
    return CaptureSettings(
        program=tuple(values["program"]),
        timeout=timeout,
        attempts=values["attempts"],
        cost=values["cost"],
        publish=publish,
        slots=values["slots"],
    )


def _fleet(values: Mapping[str, Any], time: Callable[[str], int]) -> FleetSettings:
    kinds = ("uid", "bwrap", "remote", "none")
    if values["isolation"] not in kinds:
        raise ConfigError(f"[fleet] isolation {values['isolation']!r} is unknown", fix=f"one of {', '.join(kinds)}")
    return FleetSettings(
        isolation=values["isolation"],
        run_as=values["run_as"],
        remote=tuple(values["remote"]),
        slots=values["slots"],
        drain=time("drain"),
        lease=time("lease"),
    )


def _notify(values: Mapping[str, Any], urls_file: Path | None) -> NotifySettings:
    listed = (_secret(urls_file) or "").splitlines()
    urls = (*values["urls"], *(line.strip() for line in listed if line.strip()))
    return NotifySettings(tuple(values["hook"]), tuple(values["hook_kinds"]), urls)


def secret(path: Path | None, what: str) -> str:
    """Read a secret from its file, which only its owner may read; it is never shown.

    Raises:
        ConfigError: no file, an empty one, or one that others may read.
    """
    found = _secret(path)
    if not found:
        raise ConfigError(f"no {what}", fix=f"write it into a file of mode 0600 and name that file ({what}_file)")
    return found


def _secret(path: Path | None) -> str | None:
    if path is None:
        return None
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError as error:
        fix = f"write the secret into {path}, a file of mode 0600 of this user"
        raise ConfigError(f"cannot read the secret file {path}: {error.strerror}", fix=fix) from error
    with os.fdopen(descriptor, "rb") as file:
        about = os.fstat(file.fileno())
        if not stat.S_ISREG(about.st_mode) or about.st_mode & 0o077 or about.st_uid not in (os.getuid(), 0):
            raise ConfigError(f"others may read {path}", fix=f"chmod 600 {path}")
        return file.read(_MAX_FILE).decode("utf-8", "strict").strip()
