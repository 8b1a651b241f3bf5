"""Each seal covers an entry, its place and everything before it."""

import json
from dataclasses import replace

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from gitops_bot.core.canonical import Digest, digest
from gitops_bot.core.errors import Malformed
from gitops_bot.core.ledger import GENESIS, Entry, EventKind, seal

ENTRY = Entry(EventKind.ASK_OPENED, 1_000, ask="a", agent="x", facts={"by": ("alice", "bob"), "n": 3, "none": None})


def chain(entries: list[Entry]) -> list[Digest]:
    seals, previous = [], GENESIS
    for seq, entry in enumerate(entries, 1):
        previous = seal(previous, seq, entry.document())
        seals.append(previous)
    return seals


def test_a_document_holds_exactly_the_members_of_version_1() -> None:
    assert set(ENTRY.document()) == {
        "v", "kind", "at", "ask", "run", "capture", "agent", "principal", "channel", "reason", "facts",
    }  # fmt: skip
    assert ENTRY.document()["facts"] == {"by": ["alice", "bob"], "n": 3, "none": None}


def test_a_document_survives_being_stored() -> None:
    """The chain is recomputed from rows: what was sealed and what is read back must hash alike."""
    document = ENTRY.document()
    assert seal(GENESIS, 1, json.loads(json.dumps(document))) == seal(GENESIS, 1, document)


def test_a_seal_is_what_the_page_says() -> None:
    raw = rfc8785.dumps({"entry": ENTRY.document(), "prev": GENESIS, "seq": 1})
    assert seal(GENESIS, 1, ENTRY.document()) == digest("gitops-bot/ledger/v1", raw)


@given(st.integers(0, 4), st.sampled_from(["kind", "at", "ask", "reason"]))
def test_a_change_anywhere_changes_every_seal_after_it(place: int, member: str) -> None:
    entries = [replace(ENTRY, at=ENTRY.at + number) for number in range(5)]
    changed = list(entries)
    values = {"kind": EventKind.ASK_EXPIRED, "at": 7, "ask": "b", "reason": "other"}
    changed[place] = replace(entries[place], **{member: values[member]})
    before, after = chain(entries), chain(changed)
    assert before[:place] == after[:place]
    assert all(one != other for one, other in zip(before[place:], after[place:], strict=True))


def test_two_entries_that_change_places_are_seen() -> None:
    one, two = ENTRY, replace(ENTRY, at=2_000)
    assert chain([one, two])[-1] != chain([two, one])[-1]


def test_an_entry_without_a_canonical_form_is_not_sealed() -> None:
    with pytest.raises(Malformed):
        seal(GENESIS, 1, replace(ENTRY, ask="\ud800").document())
