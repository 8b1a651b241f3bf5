"""The navigation and the keys, as the pages list them and `static/js/keys.js` acts on them."""

from typing import Final

NAVIGATION: Final = (
    ("n", "/needs-you", "Needs you"),
    ("a", "/agents", "Agents"),
    ("c", "/captures", "Captures"),
    ("s", "/signed", "Signed channel"),
    ("b", "/backlog", "Backlog"),
    ("l", "/ledger", "Ledger"),
    ("p", "/people", "People and keys"),
)
"""The second key of a chord after `g`, the page, its name."""

KEYBOARD: Final = (
    (
        "In the list",
        (
            (("j",), "next"),
            (("k",), "previous"),
            (("Enter",), "open"),
            (("x",), "mark for a batch"),
            (("/",), "search"),
        ),
    ),
    (
        "On the open card",
        (
            (("a",), "approve"),
            (("d",), "deny"),
            (("1", "…", "9"), "choose an option"),
            (("c",), "comment"),
            (("Ctrl", "Enter"), "send, from the text"),
            (("h",), "snooze; hold, on a gated ask"),
            (("u",), "back to the list"),
        ),
    ),
    (
        "Confirming",
        (
            (("Enter", "y"), "confirm what is armed, within 5 s"),
            (("Esc",), "cancel it"),
        ),
    ),
    ("Going to", tuple((("g", chord), label) for chord, _, label in NAVIGATION)),
    ("Help", ((("?",), "this list"),)),
)
"""Sections of the list of keys: title, then (keys, what they do)."""
