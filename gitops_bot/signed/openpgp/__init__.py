"""OpenPGP in the signed channel: certificates as facts, commits judged by Sequoia in process and by gpg beside it.

Importing this loads neither engine.
"""

from gitops_bot.signed.openpgp.certificates import read_certificate
from gitops_bot.signed.openpgp.engine import OpenPgpKeys
from gitops_bot.signed.openpgp.facts import CertificateFacts, KeyDates, Revocation
from gitops_bot.signed.openpgp.gpg import Gpg
from gitops_bot.signed.openpgp.keyring import agree

__all__ = ("CertificateFacts", "Gpg", "KeyDates", "OpenPgpKeys", "Revocation", "agree", "read_certificate")
