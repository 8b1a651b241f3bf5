"""What may differ with the parameters of a verb, and what is limited over time: `tiers` and `limits`."""

from collections.abc import Mapping
from typing import Final

from gitops_bot.core.canonical import MAX_INTEGER
from gitops_bot.core.errors import Malformed
from gitops_bot.policy.faults import DoesNotLoad, LoadFault
from gitops_bot.policy.model import SumLimit, Tier
from gitops_bot.policy.params import BooleanSpec, ChoiceSpec, Condition, IntegerSpec, ListSpec, ParamSpec
from gitops_bot.policy.tables import Table, shown
from gitops_bot.policy.voting import read_threshold, read_voters

MAX_TIERS: Final = 16
MAX_LIMITS: Final = 16


def read_limits(table: Table, params: Mapping[str, ParamSpec]) -> tuple[SumLimit, ...]:
    """Read `limits`, sums over a window. What was spent in the window is not known here.

    Raises:
        Malformed: a parameter that cannot be summed or told apart, or a value out of form.
    """
    if "limits" not in table:
        return ()
    sums = table.table("limits", ("sum",)).table("sum", None)
    names = list(sums)
    if not 0 < len(names) <= MAX_LIMITS:
        raise Malformed(f"must limit 1 to {MAX_LIMITS} parameters", where=sums.where)
    return tuple(_sum_limit(name, sums.table(name, ("per", "by", "le")), params) for name in names)


def _sum_limit(name: str, table: Table, params: Mapping[str, ParamSpec]) -> SumLimit:
    spec = params.get(name)
    if not isinstance(spec, IntegerSpec) or spec.at_least < 0:
        message = "only an integer parameter with ge = 0 or more can be summed; a negative one would lower the sum"
        raise Malformed(message, where=table.where)
    by = table.texts("by") if "by" in table else ()
    for key in by:
        if key == name or key not in params or isinstance(params[key], ListSpec):
            raise Malformed(f"by names {shown(key)}, which is no other single parameter", where=table.where)
    at_most = table.integer("le")
    if not 0 < at_most <= MAX_INTEGER:
        raise Malformed("le must be from 1 to 2^53−1", where=table.where)
    return SumLimit(name, table.duration("per"), by, at_most)


def read_tiers(table: Table, params: Mapping[str, ParamSpec], *, gated: bool) -> tuple[Tier, ...]:
    """Read `tiers`, in the order in which they are tried.

    Raises:
        Malformed: a condition that the schema does not carry, or a value out of form.
        DoesNotLoad: a tier with a channel, or without a condition.
    """
    if "tiers" not in table:
        return ()
    raws = table.items("tiers")
    if not 0 < len(raws) <= MAX_TIERS:
        raise Malformed(f"tiers must hold 1 to {MAX_TIERS} tables", where=table.where)
    return tuple(_tier(raw, f"{table.where}.tiers[{n}]", params, gated=gated) for n, raw in enumerate(raws, 1))


def _tier(raw: object, where: str, params: Mapping[str, ParamSpec], *, gated: bool) -> Tier:
    if isinstance(raw, dict) and {"channels", "channel"} & raw.keys():
        message = "a tier never changes the channel; take it out"
        raise DoesNotLoad(LoadFault.CHANNEL, message, where=where)
    table = Table(raw, where, ("where", "voters", "approve", "deny", "delay", "expires"))
    if "delay" in table and not gated:
        raise Malformed("delay has no meaning for an ordinary verb", where=where)
    conditions = table.table("where", None)
    names = list(conditions)
    if not names:
        raise DoesNotLoad(LoadFault.EMPTY_RULE, "where is empty", where=where)
    tier = Tier(
        where=tuple(_condition(name, conditions, params) for name in names),
        voters=read_voters(table.raw("voters"), table.at("voters"), gated=gated) if "voters" in table else None,
        approve=read_threshold(table, "approve") if "approve" in table else None,
        deny=read_threshold(table, "deny") if "deny" in table else None,
        delay=table.duration_or_none("delay"),
        expires=table.duration_or_none("expires"),
    )
    if len(list(table)) == 1:
        raise Malformed("the tier changes nothing", where=where)
    return tier


def _condition(name: str, conditions: Table, params: Mapping[str, ParamSpec]) -> Condition:
    spec, where = params.get(name), conditions.at(name)
    table = conditions.table(name, ("gt", "ge", "lt", "le", "one_of"))
    keys = set(table)
    if isinstance(spec, IntegerSpec) and keys and keys <= {"gt", "ge", "lt", "le"}:
        if {"gt", "ge"} <= keys or {"lt", "le"} <= keys:
            raise Malformed("two bounds on one side", where=where)
        low = table.integer("gt") + 1 if "gt" in keys else table.integer_or_none("ge")
        high = table.integer("lt") - 1 if "lt" in keys else table.integer_or_none("le")
        if max(spec.at_least, -MAX_INTEGER if low is None else low) > min(
            spec.at_most, MAX_INTEGER if high is None else high
        ):
            raise Malformed("no parameter that fits the schema meets this", where=where)
        return Condition(name, low, high)
    if isinstance(spec, ChoiceSpec) and keys == {"one_of"}:
        values = table.texts("one_of")
        if values and set(values) <= set(spec.choices):
            return Condition(name, values=values)
        raise Malformed("one_of holds what is none of the parameter's own values", where=where)
    if isinstance(spec, BooleanSpec) and keys == {"one_of"}:
        flags = table.items("one_of")
        if len(flags) == 1 and isinstance(flags[0], bool):
            return Condition(name, values=(flags[0],))
    message = "a condition bounds an integer (gt, ge, lt, le) or lists values (one_of) of a parameter of the schema"
    raise Malformed(message, where=where)
