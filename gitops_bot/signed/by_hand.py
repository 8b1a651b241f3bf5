"""How a person votes with git alone: the commands of `docs/signing.md`, whole, so that page and command line agree.

They are text for a POSIX shell and are run by people; a test runs them. Values are quoted by `assignments`. Pure.
"""

import shlex
from typing import Final

from gitops_bot.core.asks import AskId
from gitops_bot.core.principals import PrincipalName
from gitops_bot.core.verdicts import Decision

ROOT: Final = """\
printf 'gitops-bot/approvals/v1 %s %s %s\\n' "$repository" "$environment" "$person" > root.msg
root=$(git commit-tree -S "$(git mktree < /dev/null)" < root.msg)
git push "$remote" "$root:$branch"
"""
"""Begin a person's branch, once."""

TAKE: Final = """\
git fetch --quiet --no-tags "$remote" "+$requests:refs/bot/requests" "+$branch:refs/own/branch"
shard=${ask#"${ask%??}"}
git cat-file blob "refs/bot/requests:asks/$shard/$ask/$person.$decision" > file
git cat-file blob "refs/bot/requests:asks/$shard/$ask/$person.$decision.msg" > message
cat file message
"""
"""Take file and message, and read them."""

VOTE: Final = """\
suffix=$(od -An -N8 -tx1 /dev/urandom | tr -d ' \\n')
blob=$(git hash-object -w --no-filters file)
rm -f vote.index
GIT_INDEX_FILE=vote.index git read-tree refs/own/branch
GIT_INDEX_FILE=vote.index git update-index --add \\
  --cacheinfo "100644,$blob,approvals/$shard/$ask/$person.$decision.$suffix"
tree=$(GIT_INDEX_FILE=vote.index git write-tree)
vote=$(git commit-tree -S -p refs/own/branch "$tree" < message)
git push "$remote" "$vote:$branch"
"""
"""Sign the vote and push it."""


def assignments(
    remote: str, repository: str, environment: str, person: PrincipalName, ask: AskId, decision: Decision
) -> str:
    """Give the variables that the commands use, one assignment a line."""
    values = {
        "remote": remote,
        "repository": repository,
        "environment": environment,
        "person": person,
        "ask": ask,
        "decision": decision.value,
    }
    lines = [f"{name}={shlex.quote(value)}" for name, value in values.items()]
    lines.append("branch=refs/heads/gated/$environment/approvals/$person")
    lines.append("requests=refs/heads/gated/$environment/requests")
    return "\n".join(lines) + "\n"
