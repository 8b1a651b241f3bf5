"""What is set, as frozen values; `config` alone makes them, from a file and the environment. Times in ms."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ForgeSettings:
    """`[forge]`: repositories as `owner/name`; times in ms. No repositories: no forge. Either a token or an App's id
    with the file of its private key and its installation (0: looked up by repository); the secrets of webhooks, all of
    them live; the workflow whose runs may hand hints in, with the issuer of their tokens."""

    kind: str
    repositories: tuple[str, ...]
    api_url: str
    token_file: Path | None
    app_id: int
    installation: int
    private_key_file: Path | None
    webhook_secret_files: tuple[Path, ...]
    actions_issuer: str
    actions_workflow: str
    max_comment_age: int
    poll_fast: int
    poll_slow: int


@dataclass(frozen=True, slots=True)
class SignedSettings:
    """`[signed]`: the approvals repository (None: no signed channel), the forge's number of the repository (0: ask the
    forge), the folder of this host's keys, the file with the key that the bot signs with; times in ms."""

    remote: str | None
    repository_id: int
    keys_dir: Path
    bot_key_file: Path | None
    poll: int
    max_fetch_age: int
    skew: int


@dataclass(frozen=True, slots=True)
class CaptureSettings:
    """`[capture]`: the measuring program as an argument vector (empty: this host runs no captures), its limit in ms,
    attempts, the cost as shown to people, a folder to which ready calibrations are copied for the judge, and how many
    are measured at once."""

    program: tuple[str, ...]
    timeout: int
    attempts: int
    cost: str
    publish: Path | None
    slots: int


@dataclass(frozen=True, slots=True)
class WorkspaceSettings:
    """`[workspace]` of people: how long a new passkey gives no bound answers, how long a session lasts unused and at
    all (ms), and the OpenID provider to sign in through ('': none)."""

    passkey_rest: int
    idle: int
    lasts: int
    oidc_issuer: str
    oidc_client_id: str
    oidc_client_secret_file: Path | None


@dataclass(frozen=True, slots=True)
class FleetSettings:
    """`[fleet]`: how bodies of agents are kept from the broker's files (with the user for `uid` and the words before a
    command for `remote`), how many run at once in one lane, how long one is let end when the broker stops, and how long
    one without a sign of life stands; times in ms."""

    isolation: str
    run_as: str
    remote: tuple[str, ...]
    slots: int
    drain: int
    lease: int


@dataclass(frozen=True, slots=True)
class NotifySettings:
    """`[notify]`: the command that gets each event (empty: none), the kinds that it gets (empty: all of the list), and
    the addresses that Apprise sends to, which may hold secrets and are never shown."""

    hook: tuple[str, ...]
    hook_kinds: tuple[str, ...]
    urls: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that is set, with relative paths made absolute from the file's folder. Times in ms."""

    root: Path
    state: Path
    policies: Path
    repository: str
    environment: str
    trust_file: Path
    shared_uid: str
    database_url: str
    owner_url: str
    forge: ForgeSettings
    signed: SignedSettings
    capture: CaptureSettings
    workspace: WorkspaceSettings
    fleet: FleetSettings
    notify: NotifySettings
    bind_host: str
    bind_port: int
    origin: str
    name: str
    operator: str
    degraded: bool
    gpu_reserve: int
    resume_grace: int
    repeat_after: int
    max_open_gated: int
    max_open_bound: int


@dataclass(frozen=True, slots=True)
class Starter:
    """The loop that started this broker, as `BROKER_CONTROL_ADDR` and its companions name it: where its bridge is, the
    file with the token for it (None: the bridge is open), its name here, the agent it belongs to ('': the only one that
    has loops), whether it goes on with an earlier run, and where the token for its agent is to be written."""

    address: str
    token_file: Path | None
    loop: str
    agent: str
    resume: bool
    agent_token_file: Path | None
