"""The only reader of the environment: gives frozen values; nobody below asks the environment again."""

import os
from typing import Final

_AGENT_NAMES: Final = ("GITOPS_BOT_URL", "GITOPS_BOT_TOKEN", "LOOP_REGIME")


def agent_environment() -> dict[str, str]:
    """Give what a loop hands to its agent and judge: the three names, a missing one as the empty string."""
    return {name: os.environ.get(name, "") for name in _AGENT_NAMES}
