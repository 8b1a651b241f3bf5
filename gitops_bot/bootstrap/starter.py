"""A broker that a loop started registers that loop itself, since nobody else could tell it where the bridge is.

After `adopt` the loop is registered as over HTTP, and the token for its agent is in the file that was named. A loop
whose bridge takes no token is one from which no operator's claim is taken.
"""

import os
from pathlib import Path

from gitops_bot.broker.loops import register
from gitops_bot.config import Starter, secret
from gitops_bot.core.errors import ConfigError, Refused
from gitops_bot.store import agents
from gitops_bot.store.engine import Database, Tx
from gitops_bot.store.states import AgentKind

_PAGE = 1_000


def adopt(database: Database, starter: Starter) -> None:
    """Register the loop that started this broker.

    Raises:
        ConfigError: its token cannot be read, it belongs to no agent that may have loops, or the address is none.
        Unavailable: the database gave up.
    """
    token = secret(starter.token_file, "BROKER_CONTROL_TOKEN_FILE") if starter.token_file is not None else ""
    with database.write() as tx:
        registered = register(
            tx,
            agent=_agent(tx, starter.agent),
            loop_id=starter.loop,
            address=starter.address,
            broker_token=token,
            resume=starter.resume,
            open_bridge=not token,
        )
        if isinstance(registered, Refused):
            raise ConfigError(f"the loop that started this broker: {registered.sentence}", fix="see BROKER_LOOP_ID")
    if starter.agent_token_file is not None:
        _write(starter.agent_token_file, registered.agent_token)


def _agent(tx: Tx, slug: str) -> agents.Agent:
    found = [agent for agent in agents.page(tx, "", _PAGE) if agent.kind is AgentKind.LOOP]
    named = [agent for agent in found if slug in ("", agent.slug)]
    if len(named) != 1:
        said = f"no agent {slug!r} that has loops" if slug else f"{len(found)} agents have loops"
        raise ConfigError(said, fix="gitops-bot agent add NAME --loop, and BROKER_LOOP_AGENT=NAME")
    return named[0]


def _write(path: Path, token: str) -> None:
    unfinished = path.with_name(f"{path.name}.unfinished")
    try:
        unfinished.unlink(missing_ok=True)
        with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "w") as file:
            file.write(token + "\n")
        unfinished.replace(path)
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}", fix="see BROKER_AGENT_TOKEN_FILE") from error
