"""GraphQL over HTTP: every field that the local GitHub has, in one answer each, held to the published schema."""

import pytest
import requests

REPOSITORY = "acme/judge"

WHOLE_PULL = """
query($number: Int!) {
  viewer { id login databaseId }
  repository(owner: "acme", name: "judge") {
    id databaseId nameWithOwner isPrivate
    pullRequest(number: $number) {
      __typename id databaseId number title body closed locked state url isDraft merged headRefName headRefOid
      baseRefName baseRefOid isCrossRepository updatedAt
      author { __typename login ... on Bot { id databaseId } ... on User { id databaseId } }
      repository { databaseId }
    }
    issueOrPullRequest(number: $number) { ... on PullRequest { number isDraft } }
  }
}
"""

WHOLE_COMMENT = """
query($id: ID!) {
  node(id: $id) {
    ... on IssueComment {
      id databaseId fullDatabaseId body url createdAt updatedAt lastEditedAt includesCreatedEdit isMinimized
      minimizedReason createdViaEmail
      author { login } editor { login }
      repository { databaseId }
      pullRequest { number }
      userContentEdits(first: 10) {
        totalCount nodes { id editedAt createdAt updatedAt deletedAt diff editor { login } }
      }
    }
  }
}
"""

MINIMISE = """
mutation($id: ID!) {
  minimizeComment(input: {subjectId: $id, classifier: OFF_TOPIC}) {
    minimizedComment { ... on IssueComment { isMinimized minimizedReason } }
  }
}
"""


def _ask(forge, login: str, query: str, **variables: object) -> dict:
    headers = {"Authorization": f"bearer {forge.tokens[login]}"}
    body = {"query": query, "variables": variables}
    return requests.post(f"{forge.sandbox.url}/graphql", json=body, headers=headers, timeout=60).json()


def test_every_field_of_a_pull_request_is_as_the_schema_says(forge) -> None:
    number = forge.draft().number
    told = _ask(forge, "alice", WHOLE_PULL, number=number)["data"]
    pull = told["repository"]["pullRequest"]
    assert (pull["isDraft"], pull["state"], pull["author"]["databaseId"]) == (True, "OPEN", 2001)
    assert told["viewer"]["databaseId"] == 1001


def test_a_comment_shows_what_it_said_before(forge) -> None:
    """The history: newest first, with who and when."""
    number = forge.draft().number
    made = forge.sandbox.comment(REPOSITORY, number, "carol", "one")
    node = forge.repository().get_issue(number).get_comment(made).raw_data["node_id"]
    fresh = _ask(forge, "alice", WHOLE_COMMENT, id=node)["data"]["node"]
    assert (fresh["userContentEdits"]["totalCount"], fresh["lastEditedAt"], fresh["editor"]) == (0, None, None)
    forge.now += 60
    forge.sandbox.edit_comment(REPOSITORY, made, "alice", "two")
    told = _ask(forge, "alice", WHOLE_COMMENT, id=node)["data"]["node"]
    assert (told["includesCreatedEdit"], told["editor"]["login"], told["pullRequest"]["number"]) == (True, "alice", 1)
    rows = told["userContentEdits"]["nodes"]
    assert [(row["diff"], row["editor"]["login"]) for row in rows] == [("two", "alice"), ("one", "carol")]


def test_a_writer_hides_a_comment_and_a_reader_does_not(forge) -> None:
    number = forge.draft().number
    made = forge.sandbox.comment(REPOSITORY, number, "carol", "one")
    node = forge.repository().get_issue(number).get_comment(made).raw_data["node_id"]
    refused = _ask(forge, "carol", MINIMISE, id=node)
    assert refused["errors"][0]["type"] == "FORBIDDEN"
    assert not forge.sandbox.comments(REPOSITORY, number)[0].minimised
    told = _ask(forge, "alice", MINIMISE, id=node)["data"]["minimizeComment"]["minimizedComment"]
    assert told == {"isMinimized": True, "minimizedReason": "off_topic"}


@pytest.mark.parametrize("node", ["", "IC_", "IC_xx", "PR_MTox", "IC_OTk5Ojk5"])
def test_a_node_that_is_none_is_not_found(forge, node: str) -> None:
    for query in (WHOLE_COMMENT, MINIMISE):
        assert _ask(forge, "alice", query, id=node)["errors"][0]["type"] == "NOT_FOUND"
