"""The `[verbs.*]` and `[asks.question]` tables become rules, each whole in itself.

What is checked here concerns one verb alone: its keys, types, channels, thresholds and parameters. Rules between verbs,
people and bundles are `loadrules` and `adoption`.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from gitops_bot.core.errors import Malformed
from gitops_bot.core.verdicts import Channel
from gitops_bot.policy.executors import read_executor
from gitops_bot.policy.faults import DoesNotLoad, LoadFault
from gitops_bot.policy.model import ADOPT, QUESTION, AdoptExecutor, Executor, KeyKind, Risk, VerbRule
from gitops_bot.policy.params import MAX_PARAMS, IntegerSpec, ParamSpec, TextSpec, read_spec
from gitops_bot.policy.patterns import compile_pattern
from gitops_bot.policy.summary import Summary, read_summary
from gitops_bot.policy.tables import Table, nearest, shown
from gitops_bot.policy.tiers import read_limits, read_tiers
from gitops_bot.policy.voting import (
    check_undeclared,
    needed,
    read_channels,
    read_gated_channels,
    read_threshold,
    read_voters,
)

DAY: Final = 86_400_000
DEFAULT_EXPIRES: Final = 7 * DAY
DEFAULT_REUSE: Final = 30 * DAY

_VERB: Final = re.compile(r"[a-z][a-z0-9_]{0,31}(?:\.[a-z][a-z0-9_]{0,31}){0,3}", re.ASCII)
_PARAM: Final = re.compile(r"[a-z][a-z0-9_]{0,63}", re.ASCII)
_BOTH: Final = ("gated", "channels", "summary", "voters", "approve", "deny", "expires", "params", "tiers", "executor")
_GATED: Final = ("keys", "delay", "limits", "accept_no_spare", "owner_may_approve")
_TABLES: Final = ("voters", "params", "limits", "executor")
_ORDINARY: Final = ("reuse", "risk")
_BUILT_IN: Final = ("summary", "params", "executor", "limits", "tiers")
_ORDINARY_CHANNELS: Final = frozenset({Channel.WORKSPACE, Channel.FORGE, Channel.OPERATOR})
_DIGEST: Final = TextSpec(compile_pattern("sha256:[0-9a-f]{64}"))
_ADOPT_PARAMS: Final[Mapping[str, ParamSpec]] = MappingProxyType(
    {"digest": _DIGEST, "version": IntegerSpec(at_least=1), "previous": _DIGEST}
)
_ADOPT_SUMMARY: Final = "Adopt policy version {version}, {digest}, in place of {previous}"


def read_question(raw: object) -> VerbRule:
    """Read who answers plain questions. The first valid answer settles, so there is no threshold to state.

    Raises:
        Malformed: a key or value out of form.
        DoesNotLoad: no channel, no voter, or the signed channel.
    """
    table = Table(raw, QUESTION, ("channels", "voters", "expires"))
    channels = read_channels(table, {Channel.WORKSPACE, Channel.FORGE, Channel.OPERATOR, Channel.APP})
    voters = read_voters(table.raw("voters"), table.at("voters"), gated=False)
    expires = table.duration_or("expires", DEFAULT_EXPIRES)
    rule = VerbRule(QUESTION, False, channels, voters, 1, 1, expires, DEFAULT_REUSE)
    check_undeclared(rule, table.where)
    return rule


def read_verb(name: str, raw: object) -> VerbRule:
    """Read one verb's rule.

    Raises:
        Malformed: a name, key or value out of form.
        DoesNotLoad: a rule about this verb alone is broken.
    """
    if _VERB.fullmatch(name) is None or name == QUESTION:
        message = "a verb is lower-case words joined by points, as in payments.transfer"
        raise Malformed(message, where=f"verbs.{shown(name)}")
    where = f"verbs.{name}"
    table = Table(raw, where, None)
    gated = table.flag("gated") or name == ADOPT
    _check_keys(table, gated=gated, adopt=name == ADOPT)
    channels = read_gated_channels(table) if gated else read_channels(table, _ORDINARY_CHANNELS)
    params = _ADOPT_PARAMS if name == ADOPT else _params(table, gated=gated)
    rule = VerbRule(
        name=name,
        gated=gated,
        channels=channels,
        voters=read_voters(needed(table, "voters", LoadFault.EMPTY_RULE), table.at("voters"), gated=gated),
        approve=read_threshold(table, "approve"),
        deny=read_threshold(table, "deny") if "deny" in table else 1,
        expires=table.duration_or("expires", DEFAULT_EXPIRES),
        reuse=table.duration_or("reuse", DEFAULT_REUSE),
        delay=table.duration_or("delay", 0),
        keys=_key_kind(table) if gated else None,
        summary=_summary(table, params, gated=gated, adopt=name == ADOPT),
        params=params,
        limits=read_limits(table, params or {}),
        tiers=read_tiers(table, params or {}, gated=gated),
        executor=_executor(table, adopt=name == ADOPT),
        accept_no_spare=table.flag("accept_no_spare"),
        owner_may_approve=table.flag("owner_may_approve"),
        risk=Risk.HIGH if gated else _risk(table),
    )
    for tier in rule.every_tier:
        check_undeclared(tier, where)
    return rule


def _check_keys(table: Table, *, gated: bool, adopt: bool) -> None:
    known = _BOTH + (_GATED if gated else _ORDINARY)
    for key in table:
        if key not in _TABLES and isinstance(table.raw(key), dict):
            message = f'{shown(key)} is a table; a verb with points stands in quotes, as in [verbs."capture.approve"]'
            raise Malformed(message, where=table.where)
        if adopt and key in _BUILT_IN:
            message = f"{key} of {ADOPT} is built in; leave it out"
            raise DoesNotLoad(LoadFault.ADOPT_BUILT_IN, message, where=table.where)
        if key in known:
            continue
        if key in _GATED + _ORDINARY:
            kind = "a gated" if gated else "an ordinary"
            raise Malformed(f"{key} has no meaning for {kind} verb", where=table.where)
        raise Malformed(f"unknown key {shown(key)}{nearest(key, known)}", where=table.where)
    if adopt and "gated" in table and not table.flag("gated"):
        raise DoesNotLoad(LoadFault.ADOPT_BUILT_IN, f"{ADOPT} is always gated", where=table.where)


def _key_kind(table: Table) -> KeyKind:
    name = table.text_or_none("keys")
    if name is None:
        message = 'keys must be stated: "verified", "presence" or "any"'
        raise DoesNotLoad(LoadFault.KEYS_UNSTATED, message, where=table.where)
    if name not in tuple(KeyKind):
        near = nearest(name, tuple(kind.value for kind in KeyKind))
        raise Malformed(f'keys must be "verified", "presence" or "any"{near}', where=table.where)
    return KeyKind(name)


def _risk(table: Table) -> Risk:
    name = table.text_or_none("risk")
    if name is None:
        return Risk.NORMAL
    if name not in tuple(Risk):
        near = nearest(name, tuple(risk.value for risk in Risk))
        raise Malformed(f'risk must be "low", "normal" or "high"{near}', where=table.where)
    return Risk(name)


def _params(table: Table, *, gated: bool) -> Mapping[str, ParamSpec] | None:
    if "params" not in table:
        if gated:
            message = "params is missing; a gated verb's parameters are closed (params = {} takes none)"
            raise DoesNotLoad(LoadFault.OPEN_PARAMS, message, where=table.where)
        return None
    specs = table.table("params", None)
    names = list(specs)
    if len(names) > MAX_PARAMS:
        raise Malformed(f"more than {MAX_PARAMS} parameters", where=specs.where)
    for name in names:
        if _PARAM.fullmatch(name) is None:
            raise Malformed(f"{shown(name)} is no parameter name; [a-z][a-z0-9_]{{0,63}}", where=specs.where)
    return MappingProxyType({name: read_spec(specs.raw(name), specs.at(name)) for name in names})


def _summary(table: Table, params: Mapping[str, ParamSpec] | None, *, gated: bool, adopt: bool) -> Summary | None:
    where = table.at("summary")
    if adopt:
        return read_summary(_ADOPT_SUMMARY, _ADOPT_PARAMS, every=True, where=where)
    if "summary" not in table:
        if gated:
            message = "summary is missing; what is signed needs its sentence"
            raise DoesNotLoad(LoadFault.SUMMARY, message, where=table.where)
        return None
    return read_summary(table.text("summary"), params or {}, every=gated, where=where)


def _executor(table: Table, *, adopt: bool) -> Executor | None:
    if adopt:
        return AdoptExecutor()
    return read_executor(table.raw("executor"), table.at("executor")) if "executor" in table else None
