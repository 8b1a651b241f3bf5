"""Reviews of pull requests, submitted whole; a pending one is not kept here."""

from gitops_bot.sandbox import pull_shapes
from gitops_bot.sandbox.records import Repository, Thread
from gitops_bot.sandbox.refusals import Rejected
from gitops_bot.sandbox.skin import Answer, Call, Route, optional_text, page_of, text_field

_KIND = "PullRequestReview"


def _pull(call: Call) -> tuple[Repository, Thread]:
    repository = call.repository()
    call.world.tips(repository)
    return repository, call.world.model.threads.pull(repository, call.number("pull_number"))


def create_review(call: Call) -> Answer:
    """Submit a review at the head of now; without an event it would be pending, which is not supported here."""
    _, thread = _pull(call)
    event, body = optional_text(call.body, "event", _KIND), optional_text(call.body, "body", _KIND) or ""
    if event is None:
        raise Rejected(422, "Unprocessable Entity: a pending review is not supported here")
    made = call.world.model.reviews.submit(thread, call.account.id, event, body, call.world.now())
    return Answer(200, pull_shapes.review(call.world, made))


def list_reviews(call: Call) -> Answer:
    """List the reviews of a pull request, oldest first."""
    repository, thread = _pull(call)
    every = call.world.model.reviews.reviews_of(repository, thread.number)
    page, headers = page_of(call, repository, f"/pulls/{thread.number}/reviews", every)
    return Answer(200, [pull_shapes.review(call.world, found) for found in page], headers)


def show_review(call: Call) -> Answer:
    """Show a review."""
    repository, thread = _pull(call)
    found = call.world.model.reviews.review(repository, thread.number, call.number("review_id"))
    return Answer(200, pull_shapes.review(call.world, found))


def edit_review(call: Call) -> Answer:
    """Replace a review's text."""
    repository, thread = _pull(call)
    found = call.world.model.reviews.review(repository, thread.number, call.number("review_id"))
    body = text_field(call.body, "body", _KIND)
    return Answer(200, pull_shapes.review(call.world, call.world.model.reviews.edit(found, call.account.id, body)))


_HERE = "/repos/{owner}/{repo}/pulls/{pull_number}/reviews"
ROUTES = (
    Route("POST", _HERE, create_review, creates=True),
    Route("GET", _HERE, list_reviews),
    Route("GET", f"{_HERE}/{{review_id}}", show_review),
    Route("PUT", f"{_HERE}/{{review_id}}", edit_review),
)
