"""What a person is shown before they sign, as lines of text: rendered here from request and policy, from no page.

The file is shown byte for byte and its short code last, so that whoever types the code has had the rest before their
eyes. Lines may hold what others wrote; whoever prints them escapes each.

Pure: no I/O, clock, randomness, logging or third-party library.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from gitops_bot.core.durations import show_duration
from gitops_bot.core.principals import PrincipalName
from gitops_bot.core.verdicts import Decision
from gitops_bot.policy.diff import show_voters
from gitops_bot.policy.model import KeyKind, Policy, VerbRule
from gitops_bot.policy.rules import excluded
from gitops_bot.policy.summary import Field, show_money
from gitops_bot.signed.approving.asked import owner_of
from gitops_bot.signed.rendering import Request, show_time

_SAYS: Final = {
    Decision.APPROVE: "I approve exactly this action, once.",
    Decision.DENY: "I deny this action.",
    Decision.REVOKE: "I take back my approval of this action.",
}
_PROVES: Final = {
    KeyKind.ANY: "any key (whatever runs as the signer can approve)",
    KeyKind.PRESENCE: "a security key with a touch",
    KeyKind.VERIFIED: "a security key with a touch and a PIN or finger",
}


@dataclass(frozen=True, slots=True)
class Sheet:
    """Everything that a person decides on. `changes` are sentences on what an adoption would change, `key` names the
    signing key where there is one, `warnings` are shown with it."""

    policy: Policy
    rule: VerbRule
    request: Request
    person: PrincipalName
    decision: Decision
    file: bytes
    message: bytes
    code: str
    now: int
    changes: tuple[str, ...] = ()
    key: str = ""
    warnings: tuple[str, ...] = ()


def lines(sheet: Sheet) -> tuple[str, ...]:
    """Write a sheet."""
    request, rule = sheet.request, sheet.rule
    owner = owner_of(sheet.policy, request)
    asker = request.requester + (f", whose owner is {owner}" if owner is not None else "")
    tier = "" if rule.tier is None else f" (tier {rule.tier})"
    rows = [
        ("summary", request.summary),
        ("verb", f"{request.verb}{tier}"),
        ("asked by", f"{asker}; run {request.run}, version {request.run_version}"),
        ("of", f"{request.repository} ({request.repository_id}), environment {request.environment}"),
        ("opened", show_time(request.opened_at)),
        ("expires", f"{show_time(request.expires_at)} ({_left(request.expires_at - sheet.now)})"),
        ("action", request.action_hash),
        ("policy", f"version {sheet.policy.version}, {request.policy}"),
        ("takes", f"{rule.approve} to approve, {rule.deny} to deny, of {show_voters(rule.voters)}"),
        ("keys", _PROVES[rule.keys or KeyKind.VERIFIED]),
    ]
    if rule.delay:
        rows.append(("then", f"waits {show_duration(rule.delay)} before it is carried out"))
    barred = sorted(excluded(rule, request.requester, owner) & set(rule.voters.people))
    if barred:
        rows.append(("barred", f"{', '.join(barred)}: may deny, not approve"))
    shown = [*_table(rows), "", "parameters", *(f"  {line}" for line in _table(parameters(rule, request)))]
    if sheet.changes:
        shown += ["", "what adopting it changes", *(f"  {change}" for change in sheet.changes)]
    shown += ["", f"{sheet.person} says: {_SAYS[sheet.decision]}"]
    if sheet.key:
        shown.append(f"signed with: {sheet.key}")
    shown += [f"warning: {warning}" for warning in sheet.warnings]
    shown += ["", "the file to be signed:", *(f"  {line}" for line in sheet.file.decode("ascii").splitlines())]
    return (*shown, "", f"short code: {sheet.code}")


def parameters(rule: VerbRule, request: Request) -> list[tuple[str, str]]:
    """Give each parameter with its value; an amount also in its currency, as the policy's summary shows it."""
    money = {
        part.param: part.currency
        for part in (() if rule.summary is None else rule.summary.parts)
        if isinstance(part, Field) and part.currency is not None
    }
    rows = []
    for name in sorted(request.params):
        value = request.params[name]
        text = _value(value)
        if name in money and isinstance(value, int):
            text += f"  =  {show_money(value, str(request.params[money[name]]))}"
        rows.append((name, text))
    return rows


def _value(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case list() | tuple():
            return "[" + ", ".join(_value(item) for item in cast("Sequence[Any]", value)) + "]"
        case str():
            return f'"{value}"'
        case _:
            return str(value)


def _table(rows: Sequence[tuple[str, str]]) -> list[str]:
    width = max((len(name) for name, _ in rows), default=0)
    return [f"{name.ljust(width)}  {value}" for name, value in rows]


def _left(milliseconds: int) -> str:
    if milliseconds <= 0:
        return "over"
    for unit, length in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000)):
        if milliseconds >= 2 * length:
            return f"in {milliseconds // length} {unit}"
    return f"in {milliseconds // 1000} s"
