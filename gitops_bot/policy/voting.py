"""Who may vote, through which channel, and how many it takes: the parts of a rule that can grant something.

Whatever is missing or empty here does not load (I13).
"""

from typing import Final

from gitops_bot.core.errors import Malformed
from gitops_bot.core.principals import PrincipalName
from gitops_bot.core.readings import Permission
from gitops_bot.core.verdicts import Channel
from gitops_bot.policy.faults import DoesNotLoad, LoadFault
from gitops_bot.policy.model import VerbRule, Voters
from gitops_bot.policy.tables import Table, nearest, shown

MAX_THRESHOLD: Final = 100


def needed(table: Table, key: str, fault: LoadFault) -> object:
    """Give a value whose absence would grant nothing.

    Raises:
        DoesNotLoad: it is missing.
    """
    if key not in table:
        raise DoesNotLoad(fault, f"{key} is missing, and missing means nobody", where=table.where)
    return table.raw(key)


def _channel_names(table: Table) -> frozenset[Channel]:
    names = table.texts("channels")
    for name in names:
        if name not in tuple(Channel):
            near = nearest(name, tuple(channel.value for channel in Channel))
            raise Malformed(f"unknown channel {shown(name)}{near}", where=table.where)
    return frozenset(Channel(name) for name in names)


def read_channels(table: Table, allowed: set[Channel] | frozenset[Channel]) -> frozenset[Channel]:
    """Read the channels of what ordinary answers settle.

    Raises:
        Malformed: no channel of that name.
        DoesNotLoad: none is named, or one that cannot answer here.
    """
    needed(table, "channels", LoadFault.CHANNEL)
    channels = _channel_names(table)
    if not channels:
        raise DoesNotLoad(LoadFault.CHANNEL, "channels is empty: nobody could answer", where=table.where)
    if channels - allowed:
        names = ", ".join(sorted(channels - allowed))
        raise DoesNotLoad(LoadFault.CHANNEL, f"{names} cannot answer here", where=table.where)
    return channels


def read_gated_channels(table: Table) -> frozenset[Channel]:
    """Read the channels of a gated verb: signed commits, stated or not.

    Raises:
        Malformed: no channel of that name.
        DoesNotLoad: another channel.
    """
    if "channels" in table and _channel_names(table) != {Channel.SIGNED}:
        message = 'a gated verb is answered by signed commits alone: channels = ["signed"]'
        raise DoesNotLoad(LoadFault.CHANNEL, message, where=table.where)
    return frozenset({Channel.SIGNED})


def read_voters(raw: object, where: str, *, gated: bool) -> Voters:
    """Read who may vote. That the people exist is checked when all are known.

    Raises:
        Malformed: a key or value out of form.
        DoesNotLoad: nobody is named, or a gated verb asks the forge.
    """
    table = Table(raw, where, ("people", "owner", "undeclared", "github_permission", "team"))
    if gated and any(key != "people" for key in table):
        message = "voters of a gated verb are people by name; their keys decide, not the forge"
        raise DoesNotLoad(LoadFault.VOTERS, message, where=where)
    people = table.texts("people") if "people" in table else ()
    owner, undeclared = table.flag("owner"), table.flag("undeclared")
    if not (people or owner or undeclared) or ("people" in table and not people):
        raise DoesNotLoad(LoadFault.EMPTY_RULE, "names nobody", where=where)
    team = table.integer_or_none("team")
    if team is not None and not 0 < team < 2**53:
        raise Malformed("team is the numeric id of a team", where=where)
    names = tuple(PrincipalName(name) for name in people)
    return Voters(names, owner, undeclared, _permission(table), team)


def _permission(table: Table) -> Permission | None:
    name = table.text_or_none("github_permission")
    if name is None:
        return None
    floors = tuple(permission.value for permission in Permission if permission is not Permission.NONE)
    if name not in floors:
        near = nearest(name, floors)
        raise Malformed(f"github_permission must be one of {', '.join(floors)}{near}", where=table.where)
    return Permission(name)


def check_undeclared(rule: VerbRule, where: str) -> None:
    """Let every account vote only where one vote is enough, on the forge, with a permission that not all have.

    Raises:
        DoesNotLoad: one of these does not hold.
    """
    if not rule.voters.undeclared:
        return
    if rule.approve != 1:
        message = "undeclared = true loads only with approve = 1: two accounts may be one person"
        raise DoesNotLoad(LoadFault.VOTERS, message, where=where)
    if Channel.FORGE not in rule.channels:
        raise DoesNotLoad(LoadFault.VOTERS, "undeclared = true needs the channel forge", where=where)
    if rule.voters.github_permission in (None, Permission.READ):
        message = "undeclared = true needs a github_permission above read, which everybody has on a public repository"
        raise DoesNotLoad(LoadFault.VOTERS, message, where=where)


def read_threshold(table: Table, key: str) -> int:
    """Read a threshold that must be stated.

    Raises:
        Malformed: it is no integer.
        DoesNotLoad: it is missing or below 1.
    """
    needed(table, key, LoadFault.THRESHOLD)
    value = table.integer(key)
    if not 1 <= value <= MAX_THRESHOLD:
        message = f"{key} must be from 1 to {MAX_THRESHOLD}"
        raise DoesNotLoad(LoadFault.THRESHOLD, message, where=table.where)
    return value
