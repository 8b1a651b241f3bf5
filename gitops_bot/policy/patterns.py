"""A pattern of the policy is matched in full, in time linear in the text, whatever the pattern.

`match = "…"` of a parameter meets text that an agent chose, so the library's backtracking is no use here. The subset is
literals, `.`, escapes (`\\d \\w \\s` and punctuation, ASCII), classes, groups, `|` and the quantifiers `? * + {n} {n,}
{n,m}`; it means what `re.fullmatch` means by it. Matching walks Glushkov's automaton, its positions held as bits.
"""

import re
from dataclasses import dataclass, field
from typing import Final, assert_never

from gitops_bot.core.errors import Malformed

MAX_PATTERN: Final = 256
MAX_POSITIONS: Final = 512
MAX_NESTING: Final = 16
MAX_STEPS: Final = 16 * MAX_POSITIONS
MAX_TEXT: Final = 1_024
_PUNCTUATION: Final = frozenset("\\.^$*+?{}[]|()-/&~#@:,;=_!\"'%<> ")
_SHORTHAND: Final = {"d": "0-9", "w": "A-Za-z0-9_", "s": r" \t\n\r\f\v"}
_QUANTIFIER: Final = re.compile(r"\{(0|[1-9][0-9]{0,3})(,(0|[1-9][0-9]{0,3})?)?\}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Pattern:
    """A compiled pattern; two are equal when their text is."""

    text: str
    _nullable: bool = field(compare=False, repr=False)
    _first: int = field(compare=False, repr=False)
    _last: int = field(compare=False, repr=False)
    _follow: tuple[int, ...] = field(compare=False, repr=False)
    _sets: tuple["re.Pattern[str]", ...] = field(compare=False, repr=False)

    def matches(self, text: str) -> bool:
        """Tell whether the whole text matches; a text over `MAX_TEXT` characters never does."""
        if not text:
            return self._nullable
        if len(text) > MAX_TEXT:
            return False
        reach, landed = self._first, 0
        for char in text:
            landed = following = 0
            known: dict[re.Pattern[str], bool] = {}
            while reach:
                bit = reach & -reach
                reach ^= bit
                index = bit.bit_length() - 1
                one = self._sets[index]
                if one not in known:
                    known[one] = one.match(char) is not None
                if known[one]:
                    landed |= bit
                    following |= self._follow[index]
            if not landed:
                return False
            reach = following
        return bool(landed & self._last)


@dataclass(frozen=True, slots=True)
class _Part:
    nullable: bool
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class _One:
    chars: str


@dataclass(frozen=True, slots=True)
class _Either:
    branches: tuple["_Node", ...]


@dataclass(frozen=True, slots=True)
class _Then:
    parts: tuple["_Node", ...]


@dataclass(frozen=True, slots=True)
class _Repeat:
    inner: "_Node"
    low: int
    high: int | None


_Node = _One | _Either | _Then | _Repeat


def compile_pattern(text: str, *, where: str = "") -> Pattern:
    """Compile a pattern.

    Raises:
        Malformed: outside the subset, over `MAX_PATTERN` characters or over `MAX_POSITIONS` when written out.
    """
    if not 0 < len(text) <= MAX_PATTERN:
        raise Malformed(f"a pattern is 1 to {MAX_PATTERN} characters long", where=where)
    reader = _Reader(text, where)
    node = reader.alternatives(0)
    if reader.at < len(text):
        raise Malformed(f"unexpected {text[reader.at]!a} in the pattern", where=where)
    built = _Builder(where)
    whole = built.build(node)
    return Pattern(text, whole.nullable, whole.first, whole.last, tuple(built.follow), tuple(built.sets))


class _Reader:
    """Recursive descent over the pattern's text; the depth is bounded by `MAX_NESTING`."""

    def __init__(self, text: str, where: str) -> None:
        self.text, self.where, self.at = text, where, 0

    def fail(self, why: str) -> Malformed:
        return Malformed(f"{why} in the pattern at character {self.at + 1}", where=self.where)

    def peek(self) -> str:
        return self.text[self.at] if self.at < len(self.text) else ""

    def alternatives(self, depth: int) -> _Node:
        if depth > MAX_NESTING:
            raise self.fail("groups nested too deeply")
        branches = [self.sequence(depth)]
        while self.peek() == "|":
            self.at += 1
            branches.append(self.sequence(depth))
        return branches[0] if len(branches) == 1 else _Either(tuple(branches))

    def sequence(self, depth: int) -> _Node:
        parts: list[_Node] = []
        while self.peek() not in ("", "|", ")"):
            parts.append(self.quantified(self.atom(depth)))
        return _Then(tuple(parts))

    def atom(self, depth: int) -> _Node:
        char = self.peek()
        if char == "(":
            self.at += 3 if self.text.startswith("(?:", self.at) else 1
            if self.peek() == "?":
                raise self.fail("only plain groups are allowed: no look-around, flags or names")
            inner = self.alternatives(depth + 1)
            if self.peek() != ")":
                raise self.fail("an unclosed group")
            self.at += 1
            return inner
        if char == "[":
            return _One(self.char_class())
        if char in "*+?{}])^$":
            raise self.fail(f"an unexpected {char!r}")
        self.at += 1
        if char == ".":
            return _One(r"[^\n]")
        return _One(self.escape() if char == "\\" else re.escape(char))

    def escape(self) -> str:
        char = self.peek()
        self.at += 1
        if char in _SHORTHAND:
            return f"[{_SHORTHAND[char]}]"
        if not char or char not in _PUNCTUATION:
            raise self.fail("an escape outside the subset")
        return re.escape(char)

    def char_class(self) -> str:
        self.at += 1
        negated = self.peek() == "^"
        self.at += negated
        inside: list[str] = []
        while self.peek() != "]" or not inside:
            low = self.member()
            if self.peek() == "-" and self.text[self.at + 1 : self.at + 2] not in ("]", ""):
                self.at += 1
                high = self.member()
                if len(low) != 1 or len(high) != 1 or low > high:
                    raise self.fail("a bad range")
                inside.append(f"{re.escape(low)}-{re.escape(high)}")
            else:
                inside.append(re.escape(low) if len(low) == 1 else low)
        self.at += 1
        return f"[{'^' if negated else ''}{''.join(inside)}]"

    def member(self) -> str:
        char = self.peek()
        self.at += 1
        if char in ("", "["):
            raise self.fail("an unclosed class, or a bare [ in one")
        if char != "\\":
            return char
        escaped = self.peek()
        self.at += 1
        if escaped in _SHORTHAND:
            return _SHORTHAND[escaped]
        if not escaped or escaped not in _PUNCTUATION:
            raise self.fail("an escape outside the subset")
        return escaped

    def quantified(self, node: _Node) -> _Node:
        char = self.peek()
        if char in ("?", "*", "+"):
            self.at += 1
            low, high = {"?": (0, 1), "*": (0, None), "+": (1, None)}[char]
        elif char == "{":
            found = _QUANTIFIER.match(self.text, self.at)
            if found is None:
                raise self.fail("a quantifier outside the subset")
            self.at = found.end()
            low = int(found[1])
            high = low if found[2] is None else int(found[3]) if found[3] else None
            if high is not None and high < low:
                raise self.fail("a quantifier that counts down")
        else:
            return node
        if self.peek() in ("?", "*", "+", "{"):
            raise self.fail("two quantifiers in a row")
        return _Repeat(node, low, high)


class _Builder:
    """Positions with their follow sets; copies of a repeated part are written out."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.follow: list[int] = []
        self.sets: list[re.Pattern[str]] = []
        self.steps = 0

    def build(self, node: _Node) -> _Part:
        self.steps += 1
        if self.steps > MAX_STEPS:  # copies of what holds no character cost no position
            raise Malformed("the pattern repeats too much", where=self.where)
        match node:
            case _One(chars):
                if len(self.sets) == MAX_POSITIONS:
                    raise Malformed(f"the pattern counts beyond {MAX_POSITIONS} characters", where=self.where)
                self.sets.append(re.compile(chars))
                self.follow.append(0)
                bit = 1 << (len(self.sets) - 1)
                return _Part(False, bit, bit)
            case _Either(branches):
                whole = self.build(branches[0])
                for branch in branches[1:]:
                    part = self.build(branch)
                    whole = _Part(whole.nullable or part.nullable, whole.first | part.first, whole.last | part.last)
                return whole
            case _Then(parts):
                whole = _EMPTY
                for item in parts:
                    whole = self.then(whole, self.build(item))
                return whole
            case _Repeat(inner, low, high):
                return self.repeat(inner, low, high)
            case _:
                assert_never(node)

    def then(self, left: _Part, right: _Part) -> _Part:
        self.link(left.last, right.first)
        return _Part(
            left.nullable and right.nullable,
            left.first | right.first if left.nullable else left.first,
            left.last | right.last if right.nullable else right.last,
        )

    def link(self, ends: int, starts: int) -> None:
        while ends:
            bit = ends & -ends
            ends ^= bit
            self.follow[bit.bit_length() - 1] |= starts

    def repeat(self, inner: _Node, low: int, high: int | None) -> _Part:
        # Optional copies nest to the right, x(x(x)?)?, so that each leads only to the next.
        if high is None:
            rest = self.build(inner)
            self.link(rest.last, rest.first)
            rest = _Part(low == 0 or rest.nullable, rest.first, rest.last)
            copies = max(low - 1, 0)
        else:
            rest = _EMPTY
            for _ in range(high - low):
                rest = self.then(self.build(inner), rest)
                rest = _Part(True, rest.first, rest.last)
            copies = low
        for _ in range(copies):
            rest = self.then(self.build(inner), rest)
        return rest


_EMPTY: Final = _Part(True, 0, 0)
