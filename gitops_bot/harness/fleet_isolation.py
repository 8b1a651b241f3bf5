"""How bodies of the fleet are kept from the database, keys, tokens and processes that are not theirs."""

import os
import pwd

from gitops_bot.harness.bodies import Isolate, Start
from gitops_bot.harness.isolation import shared
from gitops_bot.ports import BodyOrder


def none() -> Isolate:
    """Keep nothing apart: a body runs as this user, in its folder, and can read what this user can."""
    before, home = shared().before, pwd.getpwuid(os.geteuid()).pw_dir

    def start(order: BodyOrder) -> Start:
        return Start((*before, *order.argv), order.folder, {"HOME": home, **order.env}, program=order.argv[0])

    return start
