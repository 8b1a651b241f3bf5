"""What every database of ours can keep as text, told from what it cannot, and replaced where words matter less.

PostgreSQL stores no NUL, and nothing stores a lone surrogate. Refusing or replacing both here keeps the engines alike:
a hostile text costs a refusal instead of an error of the driver (I20).
"""

import re
from typing import Final

_UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")


def is_storable(text: str) -> bool:
    """Tell whether every character of a text can be stored and hashed."""
    return _UNSTORABLE.search(text) is None


def storable(text: str) -> str:
    """Replace what cannot be stored by U+FFFD; for texts that are shown and never compared."""
    return _UNSTORABLE.sub("\ufffd", text)
