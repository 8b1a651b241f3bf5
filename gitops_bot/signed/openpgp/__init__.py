"""OpenPGP in the signed channel: certificates as facts, commits judged by Sequoia in process and by gpg beside it."""
