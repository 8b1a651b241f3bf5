"""Rulesets of a repository and the rules of a branch: made by administrators, seen by whoever reads the repository."""

from collections.abc import Mapping

from gitops_bot.sandbox.records import Role
from gitops_bot.sandbox.refusals import invalid
from gitops_bot.sandbox.rulesets import Ruleset
from gitops_bot.sandbox.shapes import Shape
from gitops_bot.sandbox.skin import Answer, Call, Route, object_list, page_of, text_field


def create_ruleset(call: Call) -> Answer:
    """Make a ruleset of rules without parameters."""
    repository = call.repository(Role.ADMIN)
    kinds = tuple(str(rule.get("type")) for rule in object_list(call.body, "rules", "RepositoryRuleset"))
    made = call.world.model.rulesets.add(
        repository,
        text_field(call.body, "name", "RepositoryRuleset"),
        text_field(call.body, "enforcement", "RepositoryRuleset"),
        _patterns(call.body.get("conditions")),
        kinds,
    )
    return Answer(201, _shape(call, made))


def list_rulesets(call: Call) -> Answer:
    """List the rulesets, without their rules."""
    repository = call.repository()
    page, headers = page_of(call, repository, "/rulesets", call.world.model.rulesets.of(repository))
    hidden = ("rules", "conditions")
    return Answer(200, [{k: v for k, v in _shape(call, one).items() if k not in hidden} for one in page], headers)


def list_branch_rules(call: Call) -> Answer:
    """List the rules that hold on a branch, which need not exist."""
    repository = call.repository()
    held = call.world.model.rulesets.holding(repository, call.path["branch"])
    page, headers = page_of(call, repository, "/rules/branches", held)
    about = {"ruleset_source_type": "Repository", "ruleset_source": call.world.model.directory.full_name(repository)}
    return Answer(200, [{"type": rule, **about, "ruleset_id": ruleset.id} for ruleset, rule in page], headers)


def _patterns(conditions: object) -> tuple[tuple[str, ...], tuple[str, ...]]:
    named = conditions.get("ref_name") if isinstance(conditions, Mapping) else None
    found = [named.get(name, []) if isinstance(named, Mapping) else [] for name in ("include", "exclude")]
    if not all(isinstance(one, list) and all(isinstance(text, str) for text in one) for one in found):
        raise invalid("RepositoryRuleset", "conditions", "invalid")
    return tuple(found[0]), tuple(found[1])


def _shape(call: Call, made: Ruleset) -> Shape:
    repository = call.world.model.directory.repositories[made.repository_id]
    return {
        "id": made.id,
        "name": made.name,
        "target": "branch",
        "source_type": "Repository",
        "source": call.world.model.directory.full_name(repository),
        "enforcement": made.enforcement,
        "conditions": {"ref_name": {"include": list(made.include), "exclude": list(made.exclude)}},
        "rules": [{"type": rule} for rule in made.rules],
    }


_HERE = "/repos/{owner}/{repo}"
ROUTES = (
    Route("POST", f"{_HERE}/rulesets", create_ruleset),
    Route("GET", f"{_HERE}/rulesets", list_rulesets),
    Route("GET", f"{_HERE}/rules/branches/{{branch...}}", list_branch_rules),
)
