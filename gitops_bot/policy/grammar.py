"""A bundle's bytes and the facts about its certificates become a `Policy`, or one typed error says why not.

Everything in the bundle is read, checked and closed: nothing in it is ignored. The facts come from whoever can read
certificates; a certificate that nobody could read does not load.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from gitops_bot.core.canonical import MAX_INTEGER, bundle_digest
from gitops_bot.core.errors import Malformed
from gitops_bot.policy.faults import DoesNotLoad, LoadFault
from gitops_bot.policy.loadrules import check_rules
from gitops_bot.policy.model import KeyFacts, Policy
from gitops_bot.policy.people import CERTIFICATE, read_people
from gitops_bot.policy.tables import MAX_FILE, Table, merge, nearest, read_toml, shown
from gitops_bot.policy.verbs import read_question, read_verb

SCHEMA: Final = "gitops-bot/policy/v1"
MAIN_FILE: Final = "policy.toml"
MAX_FILES: Final = 200
MAX_BUNDLE: Final = 4 << 20
MAX_PARAMS: Final = 500
_TABLES: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}\.toml", re.ASCII)
_TOP: Final = ("schema", "version", "people", "asks", "verbs")


def parse_bundle(files: Mapping[str, bytes], keys: Mapping[str, KeyFacts]) -> Policy:
    """Read a bundle: paths relative to its folder to bytes, and for each certificate path what was read from it.

    Raises:
        Malformed: bytes, tables or values out of form, or over a limit.
        DoesNotLoad: it parses and breaks a load rule.
    """
    _check_files(files)
    tables = {path: read_toml(files[path], where=path) for path in files if path.endswith(".toml")}
    version = _check_head(tables)
    top = Table(merge(tables, {"people", "asks", "verbs"}), "bundle", _TOP)
    certificates = frozenset(path for path in files if CERTIFICATE.fullmatch(path))
    people = read_people(top.raw("people") if "people" in top else {}, certificates, keys)
    asks = top.table("asks", ("question",)) if "asks" in top else None
    question = read_question(asks.raw("question")) if asks is not None and "question" in asks else None
    raw_verbs = top.table("verbs", None) if "verbs" in top else Table({}, "verbs", None)
    _check_params(raw_verbs)
    verbs = {name: read_verb(name, raw_verbs.raw(name)) for name in raw_verbs}
    check_rules(people, verbs, question)
    digest = bundle_digest(files)
    return Policy(version, digest, MappingProxyType(people), MappingProxyType(verbs), question)


def _check_files(files: Mapping[str, bytes]) -> None:
    if len(files) > MAX_FILES:
        raise Malformed(f"more than {MAX_FILES} files", where="bundle")
    if sum(len(content) for content in files.values()) > MAX_BUNDLE:
        raise Malformed(f"larger than {MAX_BUNDLE} bytes", where="bundle")
    for path, content in files.items():
        if _TABLES.fullmatch(path) is None and CERTIFICATE.fullmatch(path) is None:
            message = "a bundle holds *.toml and keys/* alone"
            raise Malformed(message, where=shown(path))
        if len(content) > MAX_FILE:
            raise Malformed(f"larger than {MAX_FILE} bytes", where=path)


def _check_params(verbs: Table) -> None:
    """Bound the patterns of a bundle before the first is compiled: each may cost a few milliseconds."""
    tables = (verb.get("params") for verb in map(verbs.raw, verbs) if isinstance(verb, dict))
    if sum(len(params) for params in tables if isinstance(params, dict)) > MAX_PARAMS:
        raise Malformed(f"more than {MAX_PARAMS} parameters in all", where="verbs")


def _check_head(tables: Mapping[str, dict[str, object]]) -> int:
    """Give the version, which stands with the schema in the main file and in no other."""
    if MAIN_FILE not in tables:
        raise DoesNotLoad(LoadFault.SCHEMA, "is missing; it holds schema and version", where=MAIN_FILE)
    for path in sorted(tables):
        if path != MAIN_FILE and {"schema", "version"} & tables[path].keys():
            message = f"schema and version stand in {MAIN_FILE} alone"
            raise DoesNotLoad(LoadFault.SCHEMA, message, where=path)
    head = tables[MAIN_FILE]
    schema, version = head.get("schema"), head.get("version")
    if schema != SCHEMA:
        near = nearest(schema, (SCHEMA,)) if isinstance(schema, str) else ""
        message = f"schema must be {SCHEMA!r}{near}"
        raise DoesNotLoad(LoadFault.SCHEMA, message, where=MAIN_FILE)
    if isinstance(version, bool) or not isinstance(version, int) or not 1 <= version <= MAX_INTEGER:
        raise DoesNotLoad(LoadFault.VERSION, "version must be an integer from 1", where=MAIN_FILE)
    return version
