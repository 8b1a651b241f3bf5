"""What two people read to each other is the digest itself, by a list that both can find in print."""

import hashlib

from gitops_bot.core.canonical import Digest
from gitops_bot.core.words import word_lines, words_of

EXAMPLE = "E582 94F2 E9A2 2748 6E8B 061B 31CC 528F D7FA 3F19"
SAID = (
    "topmost Istanbul Pluto vagabond treadmill Pacific brackish dictator goldfish Medusa afflict bravado chatter "
    "revolver Dupont midsummer stopwatch whimsical cowbell bottomless"
)


def test_a_fingerprint_in_print_reads_as_its_words() -> None:
    """The example that is printed wherever the list is: a fingerprint of 20 bytes and its words."""
    assert " ".join(words_of(Digest("sha256:" + EXAMPLE.replace(" ", "").lower()))) == SAID


def test_every_byte_has_a_word_of_its_own_at_each_place() -> None:
    """512 different words: no two bytes sound alike, and no even word stands at an odd place."""
    even = [words_of(Digest(f"sha256:{byte:02x}"))[0] for byte in range(256)]
    odd = [words_of(Digest(f"sha256:00{byte:02x}"))[1] for byte in range(256)]
    assert len({*even, *odd}) == 512


def test_another_digest_reads_otherwise_and_the_same_the_same() -> None:
    first, other = (Digest("sha256:" + hashlib.sha256(text).hexdigest()) for text in (b"1", b"2"))
    assert words_of(first) == words_of(first) != words_of(other)
    assert len(words_of(first)) == 32
    assert " ".join(word_lines(first)).split() == list(words_of(first))
    assert [len(line.split()) for line in word_lines(first)] == [8, 8, 8, 8]
