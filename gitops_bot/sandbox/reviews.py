"""Reviews of pull requests: who may write and change one, and what is told of it. Pure.

Only whole reviews are here: pending ones are their author's alone until they are submitted, and comments on lines of a
diff are none of the product's.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from gitops_bot.sandbox.directory import Directory
from gitops_bot.sandbox.events import Event, Journal
from gitops_bot.sandbox.records import Ids, Repository, Review, Role, Thread
from gitops_bot.sandbox.refusals import Rejected, checked_body, not_found

STATES: Final[Mapping[str, str]] = {
    "APPROVE": "APPROVED",
    "REQUEST_CHANGES": "CHANGES_REQUESTED",
    "COMMENT": "COMMENTED",
}
"""What a review becomes by the event that it is submitted with."""


class Reviews:
    """Every review of every repository."""

    def __init__(self, directory: Directory, ids: Ids, journal: Journal) -> None:
        self._directory = directory
        self._ids = ids
        self._journal = journal
        self.written: dict[int, dict[int, Review]] = {}

    def submit(self, thread: Thread, author_id: int, event: str, body: str, now: int) -> Review:
        """Write a review of a pull request.

        Raises:
            Rejected: the author cannot read, the thread is locked to them, the pull request is their own and they
                approve or refuse it, or it says nothing.
        """
        assert thread.pull is not None
        repository = self._directory.repositories[thread.repository_id]
        self._directory.require(repository, author_id, Role.READ)
        if thread.locked:
            self._directory.require(repository, author_id, Role.WRITE, "lock prevents review")
        if event not in STATES:
            raise _unfit("Variable $event of type PullRequestReviewEvent was provided invalid value")
        if event != "COMMENT" and author_id == thread.author_id:
            raise Rejected(422, "Review Can not approve or request changes on your own pull request")
        if event != "APPROVE" and not body.strip():
            raise _unfit("Body can't be blank")
        checked = _checked(body)
        made = Review(
            self._ids.take(), repository.id, thread.number, author_id, checked, STATES[event], thread.pull.head_sha, now
        )
        return self._put(made, "submitted", author_id, {})

    def review(self, repository: Repository, number: int, review_id: int) -> Review:
        """Find a review of a pull request.

        Raises:
            Rejected: 404.
        """
        found = self.written.get(repository.id, {}).get(review_id)
        if found is None or found.number != number:
            raise not_found()
        return found

    def reviews_of(self, repository: Repository, number: int) -> tuple[Review, ...]:
        """List the reviews of a pull request, oldest first."""
        every = self.written.get(repository.id, {}).values()
        return tuple(found for found in every if found.number == number)

    def edit(self, review: Review, editor_id: int, body: str) -> Review:
        """Replace a review's text; its author or anybody with write access may.

        Raises:
            Rejected: the editor may not, or the body does not fit.
        """
        repository = self._directory.repositories[review.repository_id]
        self._directory.require(repository, editor_id, Role.READ if editor_id == review.author_id else Role.WRITE)
        changed = replace(review, body=_checked(body))
        return self._put(changed, "edited", editor_id, {"body": {"from": review.body}})

    def delete(self, review: Review) -> None:
        """Let a review be gone, as with the account of its author; nothing is told of it."""
        del self.written[review.repository_id][review.id]

    def _put(self, review: Review, action: str, sender_id: int, changes: Mapping[str, object]) -> Review:
        self.written.setdefault(review.repository_id, {})[review.id] = review
        event = Event(
            "pull_request_review", action, review.repository_id, review.number, sender_id, changes=changes, about=review
        )
        self._journal.note(event)
        return review


def _checked(body: str) -> str:
    try:
        return checked_body("PullRequestReview", body)
    except Rejected as no:
        raise _unfit(no.message) from None


def _unfit(words: str) -> Rejected:
    # What does not fit a review is said in words alone (GitHub REST, reviews: validation failed, simple).
    return Rejected(422, f"Unprocessable Entity: {words}")
