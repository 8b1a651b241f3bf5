"""Puts together who is told of events: the host's hook and what Apprise reaches, each with its lanes."""

from collections.abc import Mapping

from gitops_bot.authority.duties import Pace, RowDuty
from gitops_bot.authority.noticing import EFFECT, KINDS, LANES, Noticing, receivers
from gitops_bot.authority.outbox import Delivered, Deliverer, Delivery, Impossible, Outbox, Route
from gitops_bot.config import Settings
from gitops_bot.core.errors import ConfigError
from gitops_bot.notify.apprise import AppriseNotifier
from gitops_bot.notify.hook import HookNotifier
from gitops_bot.ports import Duty, Notice, Notifier
from gitops_bot.store import outbox
from gitops_bot.store.engine import Database
from gitops_bot.store.outbox import StoredEffect


def duties(settings: Settings, database: Database) -> list[Duty]:
    """Make the duties of notices; none where nobody is to be told.

    Raises:
        ConfigError: an unknown kind of event, an address that Apprise does not know, or no Apprise.
    """
    told = settings.notify
    unknown = [kind for kind in told.hook_kinds if kind not in {str(one) for one in KINDS}]
    if unknown:
        known = ", ".join(str(kind) for kind in KINDS)
        raise ConfigError(f"[notify] hook_kinds: there is no event {unknown[0]!r}", fix=f"known: {known}")
    to: dict[str, Notifier] = {}
    if told.hook:
        to["hook"] = HookNotifier(told.hook, settings.root)
    if told.urls:
        apprise = AppriseNotifier(told.urls)
        apprise.check()
        to["apprise"] = apprise
    if not to:
        return []
    noticing = Noticing(database, receivers(told.hook_kinds if told.hook else None, bool(told.urls)), settings.origin)
    noticing.arm()
    handle = Outbox(database, {EFFECT: Route(_deliver(to))}).lane
    pace = Pace(batch=1, lease_ms=60_000, first_ms=500)
    return [noticing, *(RowDuty(outbox.NOTICES, database, handle, pace) for _ in range(LANES))]


def _deliver(to: Mapping[str, Notifier]) -> Deliverer:
    def deliver(effect: StoredEffect) -> Delivery:
        payload = effect.payload["told"]
        notifier = to.get(effect.payload["to"])
        if notifier is None:
            return Impossible("nobody of this name is told any more")
        notifier.tell(Notice(payload["seq"], payload["event"], payload["at"], payload))
        return Delivered({})

    return deliver
