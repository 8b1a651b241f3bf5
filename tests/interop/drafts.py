"""Commits before they are written: who signs what how, and where it is damaged, before, in or after the signature.

A `Draft` holds everything of one generated commit; a damage is a function that gives another draft. Times are seconds
since 1970 UTC.
"""

import base64
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Final

from tests import signed_keys as keys
from tests.signed_stage import NOW, Recipe

Edit = Callable[[bytes], bytes]
SOUND: Final = "sound"
"""The set of keys as they are; the others hold one of alice's other certificates, or SSH keys of another date."""


def same(content: bytes) -> bytes:
    """Change nothing."""
    return content


@dataclass(frozen=True, slots=True)
class Draft:
    """A commit of `person`, signed by `key` (of OpenPGP, which of its keys; of SSH, its name) as `options` say.

    `blob` edits the signature's bytes, `armor` its text, `raw` the finished object; `recipe` replaces parts of what is
    signed. `ring` names the set of keys that judges it.
    """

    key: str
    which: int = -1
    openpgp: bool = True
    options: dict[str, Any] = field(default_factory=dict)
    recipe: dict[str, Any] = field(default_factory=dict)
    blob: Edit = same
    armor: Edit = same
    raw: Edit = same
    ring: str = SOUND
    dated: int = 0
    """Seconds by which the signature's own date differs from the committer's."""

    def option(self, **changes: Any) -> "Draft":
        """Have the signature made otherwise."""
        return replace(self, options={**self.options, **changes})

    def commit(self, **changes: Any) -> "Draft":
        """Have something else signed."""
        return replace(self, recipe={**self.recipe, **changes})

    def sign(self, payload: bytes, at: int) -> bytes:
        """Make the signature, damaged as wanted."""
        if self.openpgp:
            key = keys.secrets(self.key)[self.which]
            packet = keys.signature_packet(key, payload, at + self.dated, **self.options)
            return self.armor(keys.pgp_armor(self.blob(packet)))
        made = keys.ssh(self.key, **self.options)(payload, at)
        return self.armor(keys.ssh_armor(self.blob(dearmored(made))))

    def bytes(self, base: Recipe) -> bytes:
        """Write the object on top of what an undamaged commit would be."""
        return self.raw(replace(base, **{"signer": self.sign, **self.recipe}).bytes())


Damage = Callable[[Draft, Random], Draft]


def dearmored(armor: bytes) -> bytes:
    """Take an SSH armor off."""
    return base64.b64decode(b"".join(armor.splitlines()[1:-1]))


@dataclass(frozen=True, slots=True)
class Kit:
    """A key that signs: the name of its row, and the undamaged draft."""

    name: str
    draft: Draft


OPENPGP: Final = (
    Kit("ed25519 subkey", Draft("alice")),
    Kit("ed25519", Draft("bot")),
    Kit("rsa", Draft("bob")),
    Kit("nistp256 subkey", Draft("carol")),
    Kit("nistp384", Draft("p384")),
    Kit("nistp521", Draft("p521")),
)
SSH: Final = (
    Kit("ed25519", Draft("alice", openpgp=False)),
    Kit("rsa", Draft("bob", openpgp=False)),
    Kit("nistp256", Draft("carol", openpgp=False)),
    Kit("nistp384", Draft("carol-384", openpgp=False)),
    Kit("nistp521", Draft("carol-521", openpgp=False)),
    Kit("sk-ed25519", Draft("alice-sk", openpgp=False)),
    Kit("sk-ecdsa", Draft("alice-sk-ecdsa", openpgp=False)),
)


@dataclass(frozen=True, slots=True)
class Case:
    """One generated commit: its number gives it again."""

    number: int
    kit: Kit
    damage: str
    draft: Draft

    def __str__(self) -> str:
        return f"commit {self.number}: {self.kit.name}, {self.damage}"


def generate(
    seed: str, kits: tuple[Kit, ...], damages: Mapping[str, Damage], often: Collection[str], most: int
) -> list[Case]:
    """Draw cases: every damage of every kit in an order that the seed gives, again and again; between them, for every
    fifth commit, one of those that are wanted often."""
    pairs = [(kit, name) for kit in kits for name in damages]
    frequent = [pair for pair in pairs if pair[1] in often]
    order = Random(seed)
    cases: list[Case] = []
    waiting: list[tuple[Kit, str]] = []
    for number in range(most):
        if not waiting:
            waiting = order.sample(pairs, len(pairs))
        kit, name = order.choice(frequent) if number % 5 == 4 else waiting.pop()
        cases.append(Case(number, kit, name, damages[name](kit.draft, Random(f"{seed} {number}"))))
    return cases


def flipped(content: bytes, rng: Random, start: int = 0, end: int | None = None) -> bytes:
    """Change one bit between two places."""
    stop = len(content) if end is None else end
    at = rng.randrange(start, max(stop, start + 1))
    return content[:at] + bytes([content[at] ^ (1 << rng.randrange(8))]) + content[at + 1 :]


def who(seconds: int | str = NOW, *, name: str = "alice <alice@example.com>", zone: str = "+0000") -> bytes:
    """Write an identity with a date."""
    return f"{name} {seconds} {zone}".encode()
