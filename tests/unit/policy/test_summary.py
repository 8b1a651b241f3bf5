"""A summary is the same sentence for everybody; money has its currency's digits or is not shown at all."""

import json
from pathlib import Path

import pytest

from gitops_bot.core.errors import Malformed
from gitops_bot.policy.params import read_spec
from gitops_bot.policy.summary import read_summary, render, show_money

VECTORS = json.loads((Path(__file__).parents[2] / "vectors" / "approval.json").read_text("utf-8"))
SPECS = {
    "payments.transfer": {
        "amount_minor": {"integer": True, "ge": 1},
        "currency": {"one_of": ["EUR", "USD"]},
        "to": {"match": "[A-Z0-9]{15,34}"},
    },
    "note.publish": {
        "title": {"match": ".{1,80}"},
        "draft": {"boolean": True},
        "tags": {"list": {"match": "[a-z]+"}},
        "counts": {"list": {"integer": True}, "max": 3},
    },
}
TEMPLATES = {
    "payments.transfer": "Transfer {amount_minor:money(currency)} to {to}",
    "note.publish": "Publish {title} draft={draft} tags={tags} counts={counts}",
}


@pytest.mark.parametrize("vector", VECTORS["approvals"], ids=lambda vector: f"{vector['person']} {vector['decision']}")
def test_the_shared_summaries_come_out_byte_for_byte(vector: dict[str, dict[str, object]]) -> None:
    """What a signer renders and what the broker compares agree with the shared vectors."""
    request = vector["request"]
    verb = str(request["verb"])
    specs = {name: read_spec(raw, name) for name, raw in SPECS[verb].items()}
    template = read_summary(TEMPLATES[verb], specs, every=True, where=verb)
    params = request["params"]
    assert isinstance(params, dict)
    assert render(template, params) == request["summary"]


@pytest.mark.parametrize("vector", VECTORS["money"], ids=lambda vector: vector["shown"])
def test_money_has_the_digits_of_its_currency(vector: dict[str, object]) -> None:
    """ISO 4217: two digits for most, none for the yen, three for the dinar."""
    assert show_money(int(str(vector["minor"])), str(vector["currency"])) == vector["shown"]


def test_money_below_nothing_keeps_its_sign() -> None:
    """A refund is not shown as a payment, whatever its last digits."""
    assert show_money(-5, "EUR") == "-0.05 EUR"
    assert show_money(-125_005, "EUR") == "-1,250.05 EUR"


@pytest.mark.parametrize("code", ["XYZ", "eur", "", "EUR "])
def test_an_unknown_currency_is_refused(code: str) -> None:
    """Digits are never guessed."""
    with pytest.raises(Malformed):
        show_money(1, code)
