"""`gitops-bot doctor`: the whole set-up checked, one line each, with the fix."""

from itertools import chain
from pathlib import Path

import click

from gitops_bot.cli.host import config_option
from gitops_bot.cli.listing import json_option, print_json
from gitops_bot.cli.terminal import escaped

_FAILED = 1


@click.command()
@config_option
@click.option("--executors", is_flag=True, help="Also call each gated verb's executor, with a check that does nothing.")
@json_option
def doctor(config: Path | None, executors: bool, as_json: bool) -> int:
    """Check everything that this host needs, one line each, with the line that repairs it.

    Looks at Python, git, gpg, the state folder and secret files, the database (library, journal, schema, content), the
    policy's pin, the forge with its webhooks and rules, the files that `gitops-bot init` writes, the workspace's origin
    and passkeys, the signed channel (remote, keys, branches), the capture program, and says how agents are kept apart.
    Changes nothing. Exits 1 when something is broken.

    With --executors each executor that is declared idempotent is called twice with one new key and must answer `dup` to
    the second call; what is sent names no action (docs/executors.md).
    """
    from gitops_bot.bootstrap.doctor import examine
    from gitops_bot.bootstrap.signed_doctor import executor_findings
    from gitops_bot.config import load

    findings = []
    settings = load(config)
    for finding in chain(examine(settings), executor_findings(settings) if executors else ()):
        findings.append(finding)
        if not as_json:
            click.echo(escaped(f"{'ok  ' if finding.ok else 'FAIL'}  {finding.name}: {finding.detail}"))
            if not finding.ok and finding.fix:
                click.echo(escaped(f"      fix: {finding.fix}"))
    sound = all(finding.ok for finding in findings)
    if as_json:
        rows = [{"name": one.name, "ok": one.ok, "detail": one.detail, "fix": one.fix} for one in findings]
        print_json({"ok": sound, "findings": rows})
    return 0 if sound else _FAILED
