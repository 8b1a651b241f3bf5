"""`python -m workspace`: the workspace behind waitress, the one place that knows which server it is.

Bodies and headers are capped before they are parsed, idle connections are closed, and long polls leave eight threads
to everybody else. It ends on SIGTERM and SIGINT.
"""

import argparse
import logging
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Final

from waitress import create_server  # type: ignore[import-untyped] # waitress ships no types

from gitops_bot.api.grammar import MAX_BODY
from gitops_bot.bootstrap.workspace import build_services
from gitops_bot.config import load
from gitops_bot.core.errors import ConfigError, Unavailable
from workspace import create_app
from workspace.waiting import MOST_WAITING

THREADS: Final = MOST_WAITING + 8
IDLE_SECONDS: Final = 60
MOST_CONNECTIONS: Final = 500


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until told to stop; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m workspace", description="Serve the workspace over HTTP.")
    parser.add_argument("--config", type=Path, metavar="FILE", help="gitops-bot.toml (default: $GITOPS_BOT_CONFIG, ./)")
    flags = parser.parse_args(arguments)
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        settings = load(flags.config)
        services = build_services(settings)
    except (ConfigError, Unavailable) as error:
        sys.stderr.write(f"gitops-bot workspace: {error}\n")
        return 1
    try:
        server = create_server(
            create_app(services),
            host=settings.bind_host,
            port=settings.bind_port,
            threads=THREADS,
            # Between the application's own cap, which is told as a problem document, and this one the body is read.
            max_request_body_size=16 * MAX_BODY,
            max_request_header_size=16_384,
            channel_timeout=IDLE_SECONDS,
            connection_limit=MOST_CONNECTIONS,
            # So that a long poll notices that its caller went away.
            channel_request_lookahead=1,
            ident="gitops-bot",
        )
    except OSError as error:
        sys.stderr.write(f"gitops-bot workspace: cannot listen on {settings.bind_host}:{settings.bind_port}: {error}\n")
        services.database.close()
        return 1
    signal.signal(signal.SIGTERM, _stop)
    try:
        server.run()
    finally:
        services.database.close()
    return 0


def _stop(_number: int, _frame: FrameType | None) -> None:
    # waitress ends its loop on this, and its threads after the request at hand.
    raise SystemExit(0)


if __name__ == "__main__":
    sys.exit(main())
