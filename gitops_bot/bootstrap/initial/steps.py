"""What is left to do by hand after `gitops-bot init`, in order, each with its address or its commands. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlencode

from gitops_bot.bootstrap.initial import files
from gitops_bot.bootstrap.initial.choices import Choices


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to do: what, at which address ('': none), by which commands."""

    do: str
    address: str = ""
    commands: tuple[str, ...] = ()


def steps(choices: Choices) -> tuple[Step, ...]:
    """List what is left to do."""
    return (*_policy(choices), *(_app(choices) if choices.app else _token(choices)), *_forge(choices), *_end())


def _policy(choices: Choices) -> Iterator[Step]:
    if choices.me is None:
        number = f"curl -s {choices.api_url}/users/YOUR-LOGIN"
        yield Step(
            f"Put your account's number (`id`) into {files.POLICY}, and your team into CODEOWNERS.", "", (number,)
        )
    yield Step(f"Read {files.POLICY}: who may decide what.", "", ("gitops-bot policy check policies",))
    yield Step("Make the database and pin the policy.", "", ("gitops-bot db upgrade", "gitops-bot trust pin"))


def _token(choices: Choices) -> Iterator[Step]:
    yield Step(
        "Make an account for the bot, with write access to the repository: never use a person's own account.",
        f"{choices.site}/{choices.repository}/settings/access",
    )
    yield Step(
        f"As the bot, make a fine-grained token for {choices.repository} alone: contents, issues and pull requests,"
        " read and write; metadata, read. Paste it into its file, end with Ctrl-D.",
        f"{choices.site}/settings/personal-access-tokens/new",
        (f"(umask 077; cat > {files.STATE}/forge.token)",),
    )


def _app(choices: Choices) -> Iterator[Step]:
    yield Step(
        f"Make the App; the address fills the form with what {files.MANIFEST} says. For an organisation begin at"
        f" {choices.site}/organizations/{choices.owner}/settings/apps/new.",
        f"{choices.site}/settings/apps/new?{_form(choices)}",
    )
    yield Step(
        f"Make a private key on the App's page and move it here; put the App's number into {files.SETTINGS} (app_id).",
        f"{choices.site}/settings/apps",
        (f"install -m 600 DOWNLOADED.pem {files.STATE}/app.pem",),
    )
    yield Step(f"Install the App on {choices.repository} alone.", f"{choices.site}/settings/apps")


def _form(choices: Choices) -> str:
    told = files.manifest(choices)
    fields = {"name": told["name"], "url": told["url"], "public": "false"}
    fields |= {"webhook_active": "true" if choices.origin else "false", "webhook_url": choices.hook_url}
    return urlencode([*fields.items(), *files.PERMISSIONS.items(), *(("events[]", one) for one in files.EVENTS)])


def _forge(choices: Choices) -> Iterator[Step]:
    settings = f"{choices.site}/{choices.repository}/settings"
    yield Step(
        "Where people sign approvals (docs/approvals.md): New ruleset, Import a ruleset, in the approvals repository,"
        f" {files.RULESET}.",
        f"{settings}/rules",
    )
    secret = f"(umask 077; openssl rand -hex 32 > {files.STATE}/webhook.secret)"
    url = choices.hook_url if choices.origin else "ORIGIN/hooks/github (set [workspace] origin first)"
    events = ", ".join(files.EVENTS if choices.app else files.HEARD)
    where = "on the App's page" if choices.app else "here"
    yield Step(
        f"For answers within a second: add a webhook {where}, payload URL {url}, application/json, the secret from its"
        f" file, events {events}; and name the file in {files.SETTINGS} (webhook_secret_files)."
        " Without it comments are found by the poll.",
        f"{choices.site}/settings/apps" if choices.app else f"{settings}/hooks/new",
        (secret,),
    )
    yield Step(
        f"Where no webhook can reach the broker: pin the action in {files.WORKFLOW}, and set the variable"
        " GITOPS_BOT_URL to the workspace's origin. Remove the file where you do not want it.",
        f"{settings}/variables/actions/new",
    )
    yield Step(
        "Protect the default branch: a pull request with a review from code owners.",
        f"{settings}/rules/new?target=branch",
    )


def _end() -> Iterator[Step]:
    names = f"{files.SETTINGS} policies .github .gitignore {files.MANIFEST} {files.RULESET}"
    yield Step(
        "Commit; nothing in these files is secret.", "", (f"git add {names}", "git commit -m 'Set up gitops-bot'")
    )
    yield Step("Say who may come into the workspace.", "", ("gitops-bot person enrol NAME",))
    yield Step("See what is still missing, then run it.", "", ("gitops-bot doctor", "gitops-bot serve"))
