"""The `[people.*]` tables become persons whose keys are strong and whose every identity is theirs alone."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from gitops_bot.core.errors import Malformed
from gitops_bot.core.principals import Identity, IdentityKind, Principal, PrincipalKind, PrincipalName
from gitops_bot.policy.faults import DoesNotLoad, LoadFault
from gitops_bot.policy.model import Certificate, KeyFacts, Person, SshKey
from gitops_bot.policy.sshkeys import MIN_RSA, read_ssh_line
from gitops_bot.policy.tables import Table, nearest, shown

NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,31}", re.ASCII)
CERTIFICATE: Final = re.compile(r"keys/[A-Za-z0-9][A-Za-z0-9._-]{0,127}", re.ASCII)
REQUESTS_ROLE: Final = "requests"
FORGE_WEB_KEYS: Final = ("5DE3E0509C47EA3CF04A42D34AEE18F83AFDEB23", "B5690EEEBB952194")
"""The keys of GitHub's web UI, by fingerprint or by key id (facts, git and gpg): neither is a person."""

_SHORT_ID: Final = re.compile(r"(0x)?[0-9A-Fa-f]{8,64}", re.ASCII)
_FINGERPRINT: Final = re.compile(r"[0-9A-F]{40}|[0-9A-F]{64}", re.ASCII)
_PASSKEY: Final = re.compile(r"[A-Za-z0-9_-]{8,1366}", re.ASCII)
_ISSUER: Final = re.compile(r"https://[!-~]{1,250}", re.ASCII)
_SUBJECT: Final = re.compile(r"[!-~]{1,255}", re.ASCII)
_CURVES: Final = frozenset({"ed25519", "cv25519", "x25519", "nistp256", "nistp384", "nistp521"})
"""Curves that both engines can verify (or that encrypt beside one): Sequoia over OpenSSL or Nettle knows no Brainpool,
gpg 2.2 no curve of 448 bits, and a key that one of them cannot verify could never vote."""

_KEYS: Final = ("kind", "owner", "role", "github", "openpgp", "ssh", "passkey", "oidc", "suspended")


def read_people(raw: object, certificates: frozenset[str], keys: Mapping[str, KeyFacts]) -> dict[PrincipalName, Person]:
    """Read all people. `certificates` are the paths of the bundle's certificate files, `keys` the facts about each.

    Raises:
        Malformed: a name, key or value out of form.
        DoesNotLoad: a rule about identities, keys or owners is broken.
    """
    table = Table(raw, "people", None)
    people: dict[PrincipalName, Person] = {}
    for name in table:
        if NAME.fullmatch(name) is None:
            raise Malformed(f"{shown(name)} is no name; names are [a-z][a-z0-9-]{{0,31}}", where="people")
        people[PrincipalName(name)] = _person(PrincipalName(name), table.table(name, _KEYS), certificates, keys)
    _check_owners(people)
    _check_identities(people)
    used = {certificate.path for person in people.values() for certificate in person.openpgp}
    for path in sorted(certificates - used):
        message = "is named by nobody; name it under somebody's openpgp or take it out"
        raise DoesNotLoad(LoadFault.UNKNOWN_KEY, message, where=path)
    return people


def _person(name: PrincipalName, table: Table, certificates: frozenset[str], keys: Mapping[str, KeyFacts]) -> Person:
    kind = table.text("kind")
    if kind not in tuple(PrincipalKind):
        raise Malformed('kind must be "human" or "service"', where=table.where)
    owner, role = table.text_or_none("owner"), table.text_or_none("role")
    if kind == PrincipalKind.HUMAN and (owner is not None or role is not None):
        raise DoesNotLoad(LoadFault.OWNER, "a human has no owner and no role", where=table.where)
    if role is not None and role != REQUESTS_ROLE:
        near = nearest(role, (REQUESTS_ROLE,))
        raise Malformed(f"the only role is {REQUESTS_ROLE!r}{near}", where=table.where)
    openpgp = tuple(_certificates(table, certificates, keys))
    ssh = tuple(_ssh_keys(table))
    principal = Principal(
        name,
        PrincipalKind(kind),
        (
            *(Identity(IdentityKind.GITHUB, account) for account in _accounts(table)),
            *(Identity(IdentityKind.PASSKEY, passkey) for passkey in _passkeys(table)),
            *(Identity(IdentityKind.OIDC, subject) for subject in _subjects(table)),
            *(Identity(IdentityKind.OPENPGP, certificate.facts.fingerprint) for certificate in openpgp),
            *(Identity(IdentityKind.SSH, key.line) for key in ssh),
        ),
        None if owner is None else PrincipalName(owner),
        role,
        table.flag("suspended"),
    )
    return Person(principal, openpgp, ssh)


def _listed(table: Table, key: str) -> list[object]:
    """Give the entries of a list of identities; an empty list is refused, for it may mean *none* or *any* (I13)."""
    if key not in table:
        return []
    entries = table.items(key)
    if not entries:
        message = f"{key} is empty; name something or leave it out"
        raise DoesNotLoad(LoadFault.EMPTY_RULE, message, where=table.where)
    return entries


def _accounts(table: Table) -> Iterator[str]:
    if "github" not in table:
        return
    value = table.raw("github")
    for account in _listed(table, "github") if isinstance(value, list) else [value]:
        if isinstance(account, bool) or not isinstance(account, int) or not 0 < account < 2**53:
            message = "github is the numeric account id, never a login"
            raise Malformed(message, where=table.where)
        yield str(account)


def _passkeys(table: Table) -> Iterator[str]:
    for value in _listed(table, "passkey"):
        if not isinstance(value, str) or _PASSKEY.fullmatch(value) is None:
            raise Malformed("passkey holds credential ids in base64url without padding", where=table.where)
        yield value


def _subjects(table: Table) -> Iterator[str]:
    for index, value in enumerate(_listed(table, "oidc")):
        entry = Table(value, f"{table.where}.oidc[{index}]", ("issuer", "subject"))
        issuer, subject = entry.text("issuer"), entry.text("subject")
        if _ISSUER.fullmatch(issuer) is None or _SUBJECT.fullmatch(subject) is None:
            raise Malformed("issuer is an https address and subject printable ASCII", where=entry.where)
        yield f"{issuer} {subject}"


def _certificates(table: Table, certificates: frozenset[str], keys: Mapping[str, KeyFacts]) -> Iterator[Certificate]:
    for path in _listed(table, "openpgp"):
        where = table.at("openpgp")
        if not isinstance(path, str) or CERTIFICATE.fullmatch(path) is None:
            if isinstance(path, str) and _SHORT_ID.fullmatch(path.replace(" ", "")[:80]):
                message = "a key id or fingerprint is no certificate; put the certificate under keys/"
                raise DoesNotLoad(LoadFault.SHORT_KEY_ID, message, where=where)
            raise Malformed('openpgp names certificates of the bundle, as in "keys/alice.asc"', where=where)
        if path not in certificates:
            raise DoesNotLoad(LoadFault.UNKNOWN_KEY, f"{path} is not in the bundle", where=where)
        if path not in keys:
            message = f"nothing could be read from {path}, so it cannot be judged"
            raise DoesNotLoad(LoadFault.UNKNOWN_KEY, message, where=where)
        _check_facts(keys[path], path)
        yield Certificate(path, keys[path])


def _check_facts(facts: KeyFacts, path: str) -> None:
    if _FINGERPRINT.fullmatch(facts.fingerprint) is None:
        message = "only a full fingerprint in upper-case hex names a certificate"
        raise DoesNotLoad(LoadFault.SHORT_KEY_ID, message, where=path)
    if not facts.components or facts.components[0].fingerprint != facts.fingerprint:
        raise DoesNotLoad(LoadFault.UNKNOWN_KEY, "no primary key was read from it", where=path)
    for key in facts.components:
        if key.fingerprint.endswith(FORGE_WEB_KEYS):
            message = "this is the forge's own web key; it is nobody's"
            raise DoesNotLoad(LoadFault.FORGE_KEY, message, where=path)
        if key.curve is None:
            strong = key.algorithm == "rsa" and key.bits >= MIN_RSA
        else:
            strong = key.curve.lower() in _CURVES
        if not strong:
            kind = key.curve or f"{key.algorithm} of {key.bits} bits"
            message = f"{kind} does not count; use RSA from {MIN_RSA} bits, Ed25519 or a NIST curve"
            raise DoesNotLoad(LoadFault.WEAK_KEY, message, where=path)


def _ssh_keys(table: Table) -> Iterator[SshKey]:
    for index, value in enumerate(_listed(table, "ssh")):
        entry = Table(value, f"{table.where}.ssh[{index}]", ("key", "not_before", "not_after"))
        line, key, security_key = read_ssh_line(entry.text("key"), where=entry.where)
        start, end = entry.day("not_before"), entry.day("not_after")
        if start >= end:
            raise Malformed("not_before must come before not_after", where=entry.where)
        yield SshKey(line, key, security_key, start, end)


def _check_owners(people: Mapping[PrincipalName, Person]) -> None:
    requesters = [name for name, person in people.items() if person.principal.role == REQUESTS_ROLE]
    if len(requesters) > 1:
        message = f"{' and '.join(requesters)} both have role {REQUESTS_ROLE!r}; one service has it"
        raise DoesNotLoad(LoadFault.BOT_KEY, message, where="people")
    for name, person in people.items():
        principal, where = person.principal, f"people.{name}"
        if principal.kind is PrincipalKind.HUMAN:
            continue
        if principal.owner is None:
            if principal.role != REQUESTS_ROLE:
                raise DoesNotLoad(LoadFault.OWNER, "a service needs an owner", where=where)
            continue
        owner = people.get(principal.owner)
        if owner is None or owner.principal.kind is not PrincipalKind.HUMAN:
            raise DoesNotLoad(LoadFault.OWNER, "the owner must be a human of the bundle", where=where)


def _check_identities(people: Mapping[PrincipalName, Person]) -> None:
    """Refuse an identity or key material that two principals hold, or that one names twice."""
    holders: dict[tuple[str, str], PrincipalName] = {}
    for name, person in people.items():
        identities = person.principal.identities
        if len(set(identities)) != len(identities):
            raise DoesNotLoad(LoadFault.SHARED_IDENTITY, "names an identity twice", where=f"people.{name}")
        certified = [key for certificate in person.openpgp for key in certificate.facts.components]
        held = {(identity.kind.value, identity.value) for identity in identities}
        held |= {("key", key.material) for key in (*certified, *(ssh.key for ssh in person.ssh))}
        held |= {("fingerprint", key.fingerprint) for key in certified}
        for kind, value in sorted(held):
            holder = holders.setdefault((kind, value), name)
            if holder != name:
                message = f"{kind} {value[:60]} belongs to {holder} already; an identity is one principal's"
                raise DoesNotLoad(LoadFault.SHARED_IDENTITY, message, where=f"people.{name}")
