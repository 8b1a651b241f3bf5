"""Whether this machine can keep the bodies of agents apart by bubblewrap is tried here, before anything is set up.

What a broker is set to, it uses or refuses (`bootstrap.fleet`); here nothing is decided for it.
"""

from dataclasses import dataclass

from gitops_bot.core.errors import ConfigError
from gitops_bot.harness.fleet_isolation import Kind, isolate


@dataclass(frozen=True, slots=True)
class Apart:
    """What `[fleet] isolation` can be on this machine without more settings, what that keeps from whom, and why it is
    no better ('' where it is)."""

    isolation: str
    said: str
    why: str = ""


def best() -> Apart:
    """Give `bwrap` where bubblewrap works here, else `none`."""
    try:
        return Apart(Kind.BWRAP.value, isolate(Kind.BWRAP).said)
    except ConfigError as error:
        return Apart(Kind.NONE.value, isolate(Kind.NONE).said, str(error))
