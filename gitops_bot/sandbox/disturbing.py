"""The forge's bad days on demand: failures before and after the effect, slowness, limits, heads that move, deliveries
that are lost, doubled, unsigned or out of order. What is counted is here too.

Patterns are globs over `METHOD /path`, with the path as sent or as in `requests`, such as `POST */issues/*/comments`.
"""

from collections import Counter
from collections.abc import Mapping

from gitops_bot.sandbox import webhooks
from gitops_bot.sandbox.faults import Fault, Push
from gitops_bot.sandbox.hooks import Delivery, Mishap
from gitops_bot.sandbox.setting_up import Setup


class Disturbances(Setup):
    """The hands of whoever makes things go wrong."""

    def fail_next(
        self,
        route_pattern: str,
        status: int,
        times: int = 1,
        after_effect: bool = False,
        headers: Mapping[str, str] | None = None,
        delay: float = 0.0,
    ) -> None:
        """Let the next requests that match fail, after `delay` seconds. With `after_effect` a request does its work
        first and then seems to fail. 304 says that nothing changed, true or not."""
        with self.world.lock:
            self.world.faults.plan(Fault(route_pattern, status, times, after_effect, headers or {}, delay))

    def slow_next(self, route_pattern: str, seconds: float, times: int = 1) -> None:
        """Let the next requests that match be answered late and well."""
        with self.world.lock:
            self.world.faults.plan(Fault(route_pattern, None, times, delay=seconds))

    def secondary_limit(self, route_pattern: str, retry_after: int | None = None, times: int = 1) -> None:
        """Let the next requests that match meet a secondary limit, which may or may not say for how long."""
        headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
        self.fail_next(route_pattern, 403, times, headers=headers)

    def move_head_after(
        self, full_name: str, branch: str, login: str, reads: int, route_pattern: str = "GET */pulls/*"
    ) -> None:
        """Let somebody push to a branch once so many matching requests were answered."""
        with self.world.lock:
            repository, account = self._repository(full_name), self._account_id(login)
            self.world.faults.plan_push(Push(route_pattern, reads, repository.id, branch, account))

    def clear_faults(self) -> None:
        """Forget every planned failure, slowness and push."""
        with self.world.lock:
            self.world.faults.clear()

    def obey_limits(self, *, hourly: int | None = None, secondary: bool | None = None) -> None:
        """Set how many requests an hour a new window gives, and switch the secondary limits on or off."""
        with self.world.lock:
            limits = self.world.model.limits
            limits.hourly = limits.hourly if hourly is None else hourly
            if secondary is not None:
                self.world.model.secondary.enabled = secondary

    def mishap(self, kind: str, times: int = 1) -> None:
        """Let the next deliveries be dropped (`drop`), doubled (`duplicate`) or sent without a signature
        (`unsigned`)."""
        with self.world.lock:
            self.world.model.hooks.plan(Mishap(kind), times)

    def hold_deliveries(self) -> None:
        """Keep deliveries back."""
        with self.world.lock:
            self.world.model.hooks.hold()

    def release_deliveries(self, *, backwards: bool = False) -> None:
        """Send what was kept back, in its order or backwards."""
        with self.world.lock:
            webhooks.release(self.world, backwards=backwards)

    def redeliver(self, full_name: str, hook_id: int, delivery_id: int) -> None:
        """Send a delivery again, with the same guid."""
        with self.world.lock:
            hook = self.world.model.hooks.hook(self._repository(full_name), hook_id)
            webhooks.redeliver(self.world, self.world.model.hooks.delivery(hook, delivery_id))

    def deliveries(self, full_name: str, hook_id: int) -> tuple[Delivery, ...]:
        """Give a webhook's deliveries, newest first."""
        with self.world.lock:
            return self.world.model.hooks.log(self.world.model.hooks.hook(self._repository(full_name), hook_id))

    def app_deliveries(self, app_id: int) -> tuple[Delivery, ...]:
        """Give the deliveries to an app's webhook, newest first."""
        with self.world.lock:
            hook = self.world.model.hooks.of_app(app_id)
            return () if hook is None else self.world.model.hooks.log(hook)

    @property
    def requests(self) -> Counter[tuple[str, str]]:
        """Count of API requests by (method, route), such as `("GET", "/repos/{owner}/{repo}/issues/comments")`."""
        with self.world.lock:
            return Counter(self.world.requests)

    @property
    def answers(self) -> Counter[tuple[str, str, int]]:
        """Count of API answers by (method, route, status)."""
        with self.world.lock:
            return Counter(self.world.answers)

    def count_requests(self) -> Counter[tuple[str, str]]:
        """Give `requests` by a method, for another process."""
        return self.requests

    def reset_counters(self) -> None:
        """Set both counts back to nothing."""
        with self.world.lock:
            self.world.requests.clear()
            self.world.answers.clear()
