"""Rules between the bundle in force and the one to replace it. Who voted for it is left to the signed channel."""

from collections.abc import Collection

from gitops_bot.core.principals import PrincipalName
from gitops_bot.policy.faults import DoesNotLoad, LoadFault
from gitops_bot.policy.loadrules import check_adopt, strictest
from gitops_bot.policy.model import ADOPT, Policy


def adopt_check(old: Policy, new: Policy, ever_named: Collection[PrincipalName] = ()) -> None:
    """Check that `new` may follow `old`. `ever_named` holds every principal's name of every bundle before `old`.

    Raises:
        DoesNotLoad: the version does not rise, a removed name comes back, or `policy.adopt` of the new bundle is weaker
            than a gated verb of the old one (that of the new one was checked when it loaded).
    """
    if new.version <= old.version:
        message = f"{new.version} does not follow {old.version}; the version rises with each bundle"
        raise DoesNotLoad(LoadFault.VERSION, message, where="version")
    for name in sorted(new.people.keys() - old.people.keys()):
        if name in ever_named:
            message = f"{name} was removed before; a removed name is never used again"
            raise DoesNotLoad(LoadFault.NAME_REUSED, message, where=f"people.{name}")
    demanded = strictest(old.verbs.values())
    if demanded is not None:
        check_adopt(new.verbs.get(ADOPT), demanded, "the bundle in force")
