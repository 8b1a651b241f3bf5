"""The configured repositories by their numeric id, looked up when the first comment needs them and not at the start.

A broker starts while its forge is down: until the forge answers, whoever asks gets `Unavailable` and is called again.
"""

import threading
from collections.abc import Iterator, Mapping

from gitops_bot.ports import Forge


class Addresses(Mapping[int, str]):
    """Names by id. Which repository a comment is really in is compared with its own reading at intake (step 2)."""

    def __init__(self, forge: Forge, names: tuple[str, ...]) -> None:
        self._forge = forge
        self.names = names
        self._known: dict[int, str] = {}
        self._lock = threading.Lock()

    def _all(self) -> Mapping[int, str]:
        with self._lock:
            for name in self.names:
                if name not in self._known.values():
                    self._known[self._forge.repository(name).id] = name
            return self._known

    def __getitem__(self, repository_id: int) -> str:
        found = self._known.get(repository_id)
        return self._all()[repository_id] if found is None else found

    def __iter__(self) -> Iterator[int]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self.names)
