"""`python -m workspace`: the workspace as a process, one for pages, API and event streams.

It prints errors only, and with `--verbose` the address it listens on. It ends on SIGTERM and SIGINT.
"""

import argparse
import logging
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Final

from gitops_bot.bootstrap.workspace import Services, build_services
from gitops_bot.config import Settings, load
from gitops_bot.core.errors import ConfigError, Unavailable
from workspace import create_app
from workspace.behind import Behind
from workspace.edge import Edge, Routes
from workspace.hooks.receiver import PATH as WEBHOOK
from workspace.hooks.receiver import Receiver, commit_to
from workspace.hooks.secrets import Secrets
from workspace.live import Hub
from workspace.mcp_tools.route import PATH as TOOLS
from workspace.mcp_tools.route import Tools
from workspace.screening import hosts_of
from workspace.server import MOST_CONNECTIONS, Server, listen
from workspace.streams import PATH as EVENTS
from workspace.streams import Events
from workspace.viewers import Ledger
from workspace.waiting import MOST_WAITING

THREADS: Final = MOST_WAITING + 8
"""Of Flask: long polls leave eight to everybody else."""
_FILES: Final = MOST_CONNECTIONS + 200
_LAST_SECONDS: Final = 10.0
_log: Final = logging.getLogger("workspace")


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until told to stop; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m workspace", description="Serve the workspace over HTTP.")
    parser.add_argument("--config", type=Path, metavar="FILE", help="gitops-bot.toml (default: $GITOPS_BOT_CONFIG, ./)")
    parser.add_argument("--verbose", action="store_true", help="say on which address it listens")
    flags = parser.parse_args(arguments)
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    # What clients send wrongly is answered, not logged; what is our fault is an error there.
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    _log.setLevel(logging.INFO if flags.verbose else logging.WARNING)
    for number in (signal.SIGTERM, signal.SIGINT):
        # Until the server has handlers of its own there is no request to finish.
        signal.signal(number, _stop)
    try:
        settings = load(flags.config)
        services = build_services(settings)
    except (ConfigError, Unavailable) as error:
        sys.stderr.write(f"gitops-bot workspace: {error}\n")
        return 1
    try:
        return _serve(settings, services)
    finally:
        services.database.close()


def _serve(settings: Settings, services: Services) -> int:
    try:
        receiver = Receiver(Secrets(settings.forge.webhook_secret_files), commit_to(services, settings.forge.app_id))
    except ConfigError as error:
        sys.stderr.write(f"gitops-bot workspace: {error}\n")
        return 1
    try:
        listener = listen(settings.bind_host, settings.bind_port)
    except OSError as error:
        sys.stderr.write(f"gitops-bot workspace: cannot listen on {settings.bind_host}:{settings.bind_port}: {error}\n")
        return 1
    port = listener.getsockname()[1]
    _log.info("listening on http://%s:%d", settings.bind_host, port)
    _allow_files()
    source = Ledger(services)
    hub = Hub(source)
    events = Events(hub, source.admit, services.site.origin)
    hosts = hosts_of(services.site.origin, settings.bind_host, port)
    behind = Behind(create_app(services), THREADS)
    tools = Tools(services, behind.run)
    routes: Routes = {EVENTS: {"GET": events}, WEBHOOK: {"POST": receiver}, TOOLS: {"POST": tools}}
    edge = Edge(hosts, routes, behind, hub)
    Server(edge).run([listener])
    receiver.close()
    return _wait_for_threads()


def _stop(_number: int, _frame: FrameType | None) -> None:
    raise SystemExit(0)


def _allow_files() -> None:
    """Let every connection that may be have its descriptor."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < _FILES:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(_FILES, hard), hard))


def _wait_for_threads() -> int:
    """Let what still runs in a thread end; one that does not within `_LAST_SECONDS` is cut with the process."""
    end = time.monotonic() + _LAST_SECONDS
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join(max(0.0, end - time.monotonic()))
            if thread.is_alive():
                logging.getLogger("workspace").error("a request did not end in time; it is cut")
                logging.shutdown()
                os._exit(1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
