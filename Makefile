# `make` prints what there is. `make demo` and `make test` set up everything that they need.
.DEFAULT_GOAL := help
.PHONY: help setup setup-dev need demo test test-long check bench fix lock lock-check clean

AUTO ?=
SCENARIO ?=

help: ## print this
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' Makefile

setup: ## make .venv with the locked packages; the command is then .venv/bin/gitops-bot
	@tools/setup.sh runtime

setup-dev: ## the same with what the tests need
	@tools/setup.sh dev

need: ## install (root on Debian) or name the system packages that the tests need
	@tools/need.sh

demo: setup ## run the main job on loopback; AUTO=1 plays the human too, SCENARIO=... chooses another
	@.venv/bin/gitops-bot demo $(if $(AUTO),--auto) $(if $(SCENARIO),--scenario $(SCENARIO))

test: need setup-dev ## the whole suite, on SQLite and on a PostgreSQL of its own
	@tools/test.sh

test-long: need setup-dev ## long fuzzing and random kills, for an hour that is free
	@HYPOTHESIS_PROFILE=long tools/test.sh

check: setup-dev ## format, lint, types, import contracts, documents, quick tests; under 90 s
	@tools/check.sh

bench: need setup-dev ## the benchmarks, each beside what it is compared with
	@tools/with-postgres.sh .venv/bin/python -m benchmarks

fix: setup-dev ## format and mend what can be mended by itself
	@.venv/bin/ruff check --fix --quiet . ; .venv/bin/ruff format .

lock: setup-dev ## write requirements/*.txt, versions and hashes, from pyproject.toml; UPGRADE=1 takes newer ones
	@tools/lock.sh

lock-check: setup-dev ## is the lock what the dependencies resolve to? (says so when it cannot be known offline)
	@tools/lock.sh --check

clean: ## remove what the other targets made
	@rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .demo .run *.egg-info
