"""`gitops-bot policy`: what a bundle on disk says, whether it loads, and proposing it. Nothing is adopted or pinned."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn, cast

import click

from gitops_bot.bootstrap.bundle import load_files, read_bundle
from gitops_bot.cli.host import broker_database, config_option
from gitops_bot.cli.listing import when
from gitops_bot.cli.terminal import escaped
from gitops_bot.core.durations import show_duration
from gitops_bot.core.errors import ConfigError, Malformed, Refused
from gitops_bot.core.principals import PrincipalKind, PrincipalName
from gitops_bot.policy.diff import difference, show_voters
from gitops_bot.policy.faults import DoesNotLoad
from gitops_bot.policy.lookup import lookup, lookup_question
from gitops_bot.policy.model import QUESTION, Policy, Risk, VerbRule
from gitops_bot.policy.reach import reachability
from gitops_bot.policy.rules import obstacle
from gitops_bot.policy.summary import render

_FAILED = 1
_REFUSED = 4
_USAGE = 64
_MAX_PARAMS = 1 << 20
_folder = click.Path(file_okay=False, path_type=Path)
_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


@click.group()
def policy() -> None:
    """Check, explain and propose the policy bundle: who may decide what, and through which channel."""


@policy.command()
@click.argument("folder", type=_folder, default=Path("policies"), metavar="[DIR]")
@_json
def check(folder: Path, as_json: bool) -> None:
    """Say whether the bundle in DIR (default: policies) loads, and what is in it.

    Exits 0 when it loads, else 1 with the rule that is broken and where.
    """
    found = _load(folder, as_json)
    if as_json:
        click.echo(json.dumps(_found(found)))
        return
    click.echo(f"{folder} loads: version {found.version}, {found.digest}")
    for name, person in found.people.items():
        principal = person.principal
        owned = f", owned by {principal.owner}" if principal.owner is not None else ""
        click.echo(f"  {name}: {principal.kind.value}{owned}{', suspended' if principal.suspended else ''}")
    for rule in _rules(found):
        kind = "gated" if rule.gated else "ordinary"
        click.echo(f"  {rule.name}: {kind}, {_channels(rule)}; {rule.approve} of {show_voters(rule.voters)}")


@policy.command()
@click.argument("verb")
@click.option("--params", "params_file", type=click.Path(path_type=Path), help="The action's parameters, a JSON file.")
@click.option("--dir", "folder", type=_folder, default=Path("policies"), help="The bundle's folder.")
@_json
def explain(verb: str, params_file: Path | None, folder: Path, as_json: bool) -> None:
    """Say who could approve VERB, through which channel, and what it takes.

    With --params it is the tier that these parameters fall in, and they are held against the verb's schema; without it
    is the verb's own rule and each of its tiers. "asks.question" explains plain questions. Exits 4 when the policy
    refuses.
    """
    found = _load(folder, as_json)
    params = None if params_file is None else _params(params_file)
    if verb == QUESTION:
        answer = lookup_question(found)
    elif params is None and verb in found.verbs:
        answer = found.verbs[verb]
    else:
        answer = lookup(found, verb, params or {})
    if isinstance(answer, Refused):
        _say_no(answer, as_json)
    tiers = answer.every_tier if params is None else (answer,)
    if as_json:
        click.echo(json.dumps({"ok": True, "verb": verb, "rules": [_explained(found, rule, params) for rule in tiers]}))
        return
    for rule in tiers:
        click.echo("\n".join(escaped(line) for line in _lines(found, rule, params)))


@policy.command()
@click.argument("old", type=_folder, metavar="OLD_DIR")
@click.argument("new", type=_folder, metavar="NEW_DIR")
@_json
def diff(old: Path, new: Path, as_json: bool) -> None:
    """Say in plain sentences what changes from the bundle in OLD_DIR to the one in NEW_DIR."""
    sentences = difference(_load(old, as_json), _load(new, as_json))
    if as_json:
        click.echo(json.dumps({"ok": True, "changes": list(sentences)}))
        return
    for sentence in sentences or ("Nothing changes.",):
        click.echo(escaped(sentence))


@policy.command()
@click.argument("folder", type=_folder, required=False, metavar="[DIR]")
@config_option
@_json
def propose(folder: Path | None, config: Path | None, as_json: bool) -> None:
    """Open the ask to adopt the bundle in DIR (default: the policies folder), on the broker's host only.

    The bot's service asks, so no voter is spent on asking; people answer with signed commits under the bundle that is
    in force now, as for any gated verb. Until then nothing changes. The same bundle proposed again is the same ask.
    Exits 1 when it does not load or may not follow, 4 when the ask is refused or the signed channel is closed.

    \b
    Example:
      gitops-bot policy check policies
      gitops-bot policy propose policies
    """
    from gitops_bot.bootstrap.proposing import propose as open_proposal

    with broker_database(config) as (settings, database):
        found = open_proposal(settings, database, folder or settings.policies)
    if as_json:
        document = {
            "ok": True,
            "ask": found.ask,
            "repeated": found.repeated,
            "expires_at": found.expires_at,
            "digest": found.policy.digest,
            "version": found.policy.version,
            "previous": found.previous,
            "changes": list(found.changes),
            "approve": found.needed,
            "may_approve": list(found.may),
        }
        click.echo(json.dumps(document))
        return
    click.echo(f"{'asked already' if found.repeated else 'asked'}: {found.ask}")
    click.echo(f"adopt version {found.policy.version}, {found.policy.digest}\nin place of {found.previous}")
    for sentence in found.changes:
        click.echo(escaped(f"  {sentence}"))
    click.echo(f"it takes {found.needed} of {', '.join(found.may)}, by signed commits (docs/signing.md)")
    if found.expires_at is not None:
        click.echo(f"it expires at {when(found.expires_at)}")


def _load(folder: Path, as_json: bool) -> Policy:
    try:
        return load_files(read_bundle(folder))
    except (Malformed, ConfigError) as error:
        code = error.code.value if isinstance(error, DoesNotLoad) else "malformed"
        if isinstance(error, ConfigError):
            code = "unreadable"
        if as_json:
            click.echo(json.dumps({"ok": False, "code": code, "error": str(error)}))
        else:
            lines = f"{folder} does not load: {error}".splitlines()
            click.echo("\n".join(escaped(line) for line in lines), err=True)
        raise SystemExit(_FAILED) from None


def _say_no(refused: Refused, as_json: bool) -> NoReturn:
    if as_json:
        facts = {name: list(fact) if isinstance(fact, tuple) else fact for name, fact in refused.facts.items()}
        document = {"ok": False, "reason": refused.reason.value, "sentence": refused.sentence, "facts": facts}
        click.echo(json.dumps(document))
    click.echo(escaped(f"{refused.reason.value}: {refused.sentence}"), err=True)
    raise SystemExit(_REFUSED)


def _params(path: Path) -> Mapping[str, object]:
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_PARAMS + 1)
        raw = json.loads(content) if len(content) <= _MAX_PARAMS else None
    # RecursionError: the standard reader has no limit of depth but the interpreter's.
    except (OSError, ValueError, RecursionError):
        raw = None
    if not isinstance(raw, dict):
        click.echo(f"gitops-bot: {path} is no JSON object of parameters", err=True)
        raise SystemExit(_USAGE)
    return cast("dict[str, object]", raw)


def _rules(found: Policy) -> tuple[VerbRule, ...]:
    return (*(() if found.question is None else (found.question,)), *found.verbs.values())


def _channels(rule: VerbRule) -> str:
    return ", ".join(sorted(rule.channels))


def _found(found: Policy) -> dict[str, object]:
    people = [
        {
            "name": name,
            "kind": person.principal.kind.value,
            "owner": person.principal.owner,
            "suspended": person.principal.suspended,
            "identities": [[identity.kind.value, identity.value] for identity in person.principal.identities],
        }
        for name, person in found.people.items()
    ]
    rules = [_explained(found, rule, None) for rule in _rules(found)]
    return {"ok": True, "version": found.version, "digest": found.digest, "people": people, "rules": rules}


def _standing(found: Policy, rule: VerbRule) -> list[tuple[PrincipalName, str | None]]:
    return [(name, obstacle(found.people[name], rule)) for name in rule.voters.people]


def _explained(found: Policy, rule: VerbRule, params: Mapping[str, object] | None) -> dict[str, object]:
    voters = rule.voters
    return {
        "verb": rule.name,
        "tier": rule.tier,
        "gated": rule.gated,
        "risk": rule.risk.value,
        "channels": sorted(rule.channels),
        "approve": rule.approve,
        "deny": rule.deny,
        "voters": [{"name": name, "obstacle": why} for name, why in _standing(found, rule)],
        "owner_votes": voters.owner,
        "undeclared": voters.undeclared,
        "github_permission": None if voters.github_permission is None else voters.github_permission.value,
        "team": voters.team,
        "keys": None if rule.keys is None else rule.keys.value,
        "expires_ms": rule.expires,
        "delay_ms": rule.delay,
        "reuse_ms": None if rule.gated else rule.reuse,
        "accept_no_spare": rule.accept_no_spare,
        "owner_may_approve": rule.owner_may_approve,
        "reachable": reachability(found, rule),
        "summary": _sentence(rule, params),
    }


def _sentence(rule: VerbRule, params: Mapping[str, object] | None) -> str | None:
    if rule.summary is None:
        return None
    return rule.summary.text if params is None else render(rule.summary, params)


def _lines(found: Policy, rule: VerbRule, params: Mapping[str, object] | None) -> list[str]:
    tier = "" if rule.tier is None else f", tier {rule.tier}"
    lines = [f"{rule.name}{tier}: {'gated' if rule.gated else 'ordinary'}, answered through {_channels(rule)}"]
    sentence = _sentence(rule, params)
    if sentence is not None:
        lines.append(f"  reads: {sentence}")
    if rule.question:
        lines.append("  the first valid answer settles")
    else:
        lines.append(f"  missing: {rule.approve} to approve; {rule.deny} to deny")
    for name, why in _standing(found, rule):
        lines.append(f"  {name} may vote" if why is None else f"  {name} may not: {why}")
    lines += _others(found, rule)
    lines += [f"  {line}" for line in reachability(found, rule)]
    if rule.risk is Risk.HIGH:
        lines.append("  high risk: an answer takes a second key, and is never one of a batch")
    lines.append(f"  an ask expires after {show_duration(rule.expires)}; expiry never approves")
    if rule.delay:
        lines.append(f"  a grant waits {show_duration(rule.delay)} before it can be spent")
    return lines


def _others(found: Policy, rule: VerbRule) -> list[str]:
    lines = []
    if rule.voters.owner:
        owners = {person.principal.owner for person in found.people.values() if person.principal.owner is not None}
        lines.append(
            f"  the asking agent's owner may vote (owners in the bundle: {', '.join(sorted(owners)) or 'none'})"
        )
    if rule.voters.undeclared:
        lines.append("  any account on the forge may vote")
    if rule.voters.github_permission is not None:
        lines.append(f"  each needs {rule.voters.github_permission.value} permission on the repository")
    if rule.voters.team is not None:
        lines.append(f"  each needs to be in team {rule.voters.team}")
    services = [name for name, one in found.people.items() if one.principal.kind is PrincipalKind.SERVICE]
    if rule.gated and not rule.owner_may_approve and services:
        lines.append("  never the requester, a service, or the asking agent's owner")
    else:
        lines.append("  never the requester or a service")
    return lines
