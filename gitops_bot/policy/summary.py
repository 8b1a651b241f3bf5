"""A verb's one sentence, made from its parameters: the same bytes for everybody who signs it.

A template is printable text with `{name}` and `{name:money(currency)}` in it; there is no other brace. Money is shown
with the digits that ISO 4217 gives the currency; one that is not in the table here is refused, never guessed.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, cast

from gitops_bot.core.errors import Malformed
from gitops_bot.policy.faults import DoesNotLoad, LoadFault
from gitops_bot.policy.params import ChoiceSpec, IntegerSpec, ParamSpec, printable

MAX_TEMPLATE: Final = 500
_FIELD: Final = re.compile(r"\{([a-z][a-z0-9_]{0,63})(?::money\(([a-z][a-z0-9_]{0,63})\))?\}", re.ASCII)

_TWO: Final = (
    "AED AMD ARS AUD AZN BAM BDT BGN BRL CAD CHF CNY COP CZK DKK EGP EUR GBP GEL GHS HKD HUF IDR ILS INR KES KZT LKR"
    " MAD MDL MKD MXN MYR NGN NOK NZD PEN PHP PKR PLN QAR RON RSD SAR SEK SGD THB TRY TWD TZS UAH USD UYU UZS ZAR"
)
_THREE: Final = "BHD IQD JOD KWD LYD OMR TND"
_NONE: Final = "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX VND VUV XAF XOF XPF"
DIGITS: Final[Mapping[str, int]] = MappingProxyType(
    {code: digits for digits, codes in ((2, _TWO), (3, _THREE), (0, _NONE)) for code in codes.split()}
)
"""Digits after the point (ISO 4217, list one)."""


@dataclass(frozen=True, slots=True)
class Field:
    """A parameter shown in place; `currency` names the parameter that says in what money."""

    param: str
    currency: str | None


@dataclass(frozen=True, slots=True)
class Summary:
    """A template that was checked against its verb's schema; `text` is what was written in the policy."""

    text: str
    parts: tuple[str | Field, ...]


def show_money(minor: int, currency: str) -> str:
    """Write an amount in minor units with grouped thousands and its code: `1,250.00 EUR`.

    Raises:
        Malformed: the currency is not in the table.
    """
    digits = DIGITS.get(currency)
    if digits is None:
        raise Malformed("no known currency", where="currency")
    whole, rest = divmod(abs(minor), 10**digits)
    fraction = f".{rest:0{digits}d}" if digits else ""
    return f"{'-' if minor < 0 else ''}{whole:,}{fraction} {currency}"


def read_summary(text: str, specs: Mapping[str, ParamSpec], *, every: bool, where: str) -> Summary:
    """Read a template against the parameters it may name; with `every` it must show each of them.

    Raises:
        Malformed: a brace that is no field, a parameter that is not in the schema, or text that cannot be shown.
        DoesNotLoad: a parameter is left out, or money without a closed list of known currencies.
    """
    if not 0 < len(text) <= MAX_TEMPLATE or not printable(text):
        raise Malformed(f"must be 1 to {MAX_TEMPLATE} printable characters", where=where)
    parts: list[str | Field] = []
    named: set[str] = set()
    at = 0
    for found in _FIELD.finditer(text):
        parts += [text[at : found.start()], Field(found[1], found[2])]
        named |= {name for name in found.groups() if name is not None}
        at = found.end()
    parts.append(text[at:])
    if any("{" in part or "}" in part for part in parts if isinstance(part, str)):
        raise Malformed("a brace that is neither {parameter} nor {parameter:money(currency)}", where=where)
    unknown = sorted(named - specs.keys())
    if unknown:
        raise Malformed(f"names {unknown[0]}, which is no parameter of the verb", where=where)
    hidden = sorted(specs.keys() - named)
    if every and hidden:
        raise DoesNotLoad(LoadFault.SUMMARY, f"does not show {', '.join(hidden)}", where=where)
    for part in parts:
        if isinstance(part, Field) and part.currency is not None:
            _check_money(specs[part.param], specs[part.currency], where)
    return Summary(text, tuple(part for part in parts if part))


def _check_money(amount: ParamSpec, currency: ParamSpec, where: str) -> None:
    if not isinstance(amount, IntegerSpec):
        raise DoesNotLoad(LoadFault.SUMMARY, "money() shows an integer of minor units", where=where)
    if not isinstance(currency, ChoiceSpec) or not set(currency.choices) <= DIGITS.keys():
        raise DoesNotLoad(LoadFault.SUMMARY, "money() needs a one_of of known ISO 4217 codes", where=where)


def render(summary: Summary, params: Mapping[str, object]) -> str:
    """Write the sentence for parameters that fit the verb's schema. Each surface escapes it its own way.

    Raises:
        Malformed: a parameter that the schema would have refused.
    """
    return "".join(part if isinstance(part, str) else _show(part, params) for part in summary.parts)


def _show(field: Field, params: Mapping[str, object]) -> str:
    value = params.get(field.param)
    if field.currency is None:
        return _plain(value)
    currency = params.get(field.currency)
    if isinstance(value, bool) or not isinstance(value, int) or not isinstance(currency, str):
        raise Malformed("no amount in a currency", where=field.param)
    return show_money(value, currency)


def _plain(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int() | str():
            return str(value)
        case list() | tuple():
            return ", ".join(_plain(item) for item in cast("Sequence[object]", value))
        case _:
            raise Malformed("a value that has no one-line form", where="summary")
