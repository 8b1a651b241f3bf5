"""A bundle that parses and must not load is told by one code of a closed list, and by a sentence with the repair."""

from enum import StrEnum

from gitops_bot.core.errors import Malformed


class LoadFault(StrEnum):
    """Why a well-formed bundle does not load."""

    SCHEMA = "schema"
    DEFINED_TWICE = "defined_twice"
    SHARED_IDENTITY = "shared_identity"
    SHORT_KEY_ID = "short_key_id"
    FORGE_KEY = "forge_key"
    BOT_KEY = "bot_key"
    WEAK_KEY = "weak_key"
    UNKNOWN_KEY = "unknown_key"
    OWNER = "owner"
    EMPTY_RULE = "empty_rule"
    THRESHOLD = "threshold"
    UNREACHABLE = "unreachable"
    CHANNEL = "channel"
    VOTERS = "voters"
    KEYS_UNSTATED = "keys_unstated"
    OPEN_PARAMS = "open_params"
    SUMMARY = "summary"
    ADOPT_MISSING = "adopt_missing"
    ADOPT_WEAKER = "adopt_weaker"
    ADOPT_BUILT_IN = "adopt_built_in"
    VERSION = "version"
    NAME_REUSED = "name_reused"


class DoesNotLoad(Malformed):
    """The bundle parses and breaks a load rule; the message says which and what repairs it."""

    def __init__(self, code: LoadFault, message: str, *, where: str = "") -> None:
        super().__init__(message, where=where)
        self.code = code
