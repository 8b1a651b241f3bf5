"""Every refusal is told in words that say what happened and what to do, on every surface."""

import pytest

from gitops_bot.authority.card_history import sentence_of
from gitops_bot.authority.remedies import REMEDIES, remedy_of
from gitops_bot.bootstrap.showing import remedy, signer_remedy
from gitops_bot.core.errors import SENTENCES, Reason
from gitops_bot.signed.remedies import REMEDIES as SIGNED


@pytest.mark.parametrize("reason", Reason)
def test_every_code_has_a_sentence_and_a_remedy(reason: Reason) -> None:
    """Both for who answers here and for who signs; a sentence ends like one."""
    assert sentence_of(reason.value) == SENTENCES[reason]
    for said in (remedy(reason.value), signer_remedy(reason.value)):
        assert said[0].isupper() and said.endswith(".") and len(said) > 10


@pytest.mark.parametrize("code", ["", "counted", "nonsense", "GATED"])
def test_what_is_no_code_has_no_remedy(code: str) -> None:
    """A code of a later version is shown as it is; nothing is invented for it."""
    assert remedy_of(code) == remedy(code) == "" and sentence_of(code) == "Refused."


def test_the_two_lists_leave_no_code_out() -> None:
    """What neither names is of a signed commit alone, and says how to have it explained."""
    missing = [reason for reason in Reason if reason not in REMEDIES and reason not in SIGNED]
    assert missing == []
