# Sourced by check.sh and test.sh: the stages that run no test of the product.

stage format 5 ruff format --check .
stage lint 5 ruff check .
stage types 60 mypy
stage contracts 15 lint-imports --no-cache --no-logo
stage docs 5 python tools/docs.py
