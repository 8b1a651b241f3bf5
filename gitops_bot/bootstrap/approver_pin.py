"""The pin of an approver's machine: confirmed by a person word for word once, then moved by verified adoptions alone.

After `Pinning.settle` the tip of the requests branch is signed by the bot of the bundle that is pinned, that bundle's
bytes hash to the pin, and the tip is remembered. The pin is a trust file as the host's, in this machine's own folder.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from gitops_bot.bootstrap.approver_profile import Profile, write_profile
from gitops_bot.bootstrap.trust import Trust, read_trust, write_trust
from gitops_bot.core.canonical import Digest
from gitops_bot.core.errors import ConfigError, Refusal, Refused
from gitops_bot.core.words import word_lines
from gitops_bot.signed.approving.clone import Clone, Look
from gitops_bot.signed.approving.following import Followed, Follower, Load, bundle_at
from gitops_bot.signed.approving.judging import Bundle, Judge
from gitops_bot.signed.rendering import Request

Found = TypeVar("Found")


class Desk(Protocol):
    """The person at the terminal. Whoever implements it escapes what it prints, and reads from the terminal alone."""

    def show(self, lines: Sequence[str]) -> None:
        """Print some lines."""

    def confirm(self, question: str) -> bool:
        """Ask for a yes."""

    def code(self) -> str:
        """Read what the person types for the short code."""


class Declined(ConfigError):
    """The person did not confirm; nothing was changed."""


@dataclass(frozen=True, slots=True)
class Settled:
    """What a run decides by: the pinned bundle's view, and why the pin did not follow further where it should have."""

    judge: Judge
    trust: Trust
    refused: Refused | None = None


@dataclass(frozen=True, slots=True)
class Pinning:
    """Makes and moves the pin. `judging` gives a bundle's view of this machine's copy."""

    profile: Profile
    clone: Clone
    load: Load
    judging: Callable[[Bundle], Judge]
    follower: Follower

    @property
    def pinned(self) -> bool:
        """Tell whether there is a pin."""
        return self.profile.trust_file.exists() or self.profile.trust_file.is_symlink()

    def settle(self, look: Look, request: Request, desk: Desk, *, keep: bool = True) -> Settled:
        """Find what this machine decides by; without a pin the person is asked to compare the words of the bundle that
        the request binds. With `keep` false (a dry run) nothing is remembered, and the words are only shown.

        Raises:
            Refusal: the branch is not the bot's by the pin, or the pinned bundle's bytes are not there.
            Declined: the person did not confirm the words.
            ConfigError: the pin cannot be read or written.
            Unavailable: git or an engine failed.
        """
        if not self.pinned:
            return self._first(look, request.policy, request.epoch, request, desk, keep=keep)
        trust = read_trust(self.profile.trust_file)
        start = or_refusal(bundle_at(self.clone, look.tip, trust.policy_digest, self.load))
        followed = self.follower.follow(look.tip, start)
        judge, taken = self._signed(look, start, followed)
        for step in followed.chain[:taken]:
            policy = step.bundle.policy
            desk.show((f"policy version {policy.version} was adopted by {step.ask}, verified here",))
            trust = replace(trust, policy_digest=policy.digest, policy_version=policy.version)
        if request.epoch > trust.epoch and request.policy == trust.policy_digest:
            trust = replace(trust, epoch=request.epoch)
        if keep:
            self.clone.accept(look.tip)
            if trust != read_trust(self.profile.trust_file):
                write_trust(self.profile.trust_file, trust)
        return Settled(judge, trust, followed.refused)

    def again(self, look: Look, digest: Digest, desk: Desk) -> Trust:
        """Pin a bundle that the person names, once they confirmed its words; the old pin is forgotten.

        Raises:
            Refusal: the branch does not hold it, or is not signed by its bot.
            Declined: the person did not confirm.
        """
        epoch = read_trust(self.profile.trust_file).epoch if self.pinned else 1
        return self._first(look, digest, epoch, None, desk, keep=True).trust

    def _signed(self, look: Look, start: Bundle, followed: Followed) -> tuple[Judge, int]:
        """Find the newest bundle of the chain whose bot signed the tip: an adoption whose bot has not published yet is
        followed the next time."""
        bundles = [start, *(step.bundle for step in followed.chain)]
        said: Refused | None = None
        for taken in range(len(bundles) - 1, -1, -1):
            judge = self.judging(bundles[taken])
            signed = judge.newest(look)
            if not isinstance(signed, Refused):
                return judge, taken
            said = said or signed
        assert said is not None
        raise Refusal(said)

    def _first(
        self, look: Look, digest: Digest, epoch: int, request: Request | None, desk: Desk, *, keep: bool
    ) -> Settled:
        bundle = or_refusal(bundle_at(self.clone, look.tip, digest, self.load))
        judge = self.judging(bundle)
        or_refusal(judge.newest(look))
        trust = Trust(epoch, digest, bundle.policy.version)
        desk.show(self._introduction(bundle, request))
        if not keep:
            return Settled(judge, trust)
        if not desk.confirm("Does `gitops-bot trust show` on the broker's host print the same words?"):
            raise Declined(
                "nothing was pinned, and nothing signed",
                fix="compare the words with somebody on the host, over a channel that no agent writes",
            )
        self._write(trust, request)
        self.clone.accept(look.tip)
        return Settled(judge, trust)

    def _introduction(self, bundle: Bundle, request: Request | None) -> tuple[str, ...]:
        policy = bundle.policy
        known = (
            ("This machine does not know this repository yet.",)
            if request is not None
            else ("This machine is to pin another policy by your word alone.",)
        )
        of = () if request is None else (f"  repository   {request.repository} ({request.repository_id})",)
        return (
            *known,
            f"  remote       {self.profile.remote}",
            *of,
            f"  environment  {self.profile.environment}",
            f"  person       {self.profile.person}",
            f"  policy       version {policy.version}, {policy.digest}",
            "  in words",
            *(f"    {line}" for line in word_lines(policy.digest)),
        )

    def _write(self, trust: Trust, request: Request | None) -> None:
        self.profile.trust_file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_trust(self.profile.trust_file, trust)
        if request is not None and not self.profile.written:
            write_profile(self.profile, request.repository, request.repository_id)


def or_refusal(found: Found | Refused) -> Found:
    """Give what was found.

    Raises:
        Refusal: it is a no.
    """
    if isinstance(found, Refused):
        raise Refusal(found)
    return found
