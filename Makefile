# SPDX-License-Identifier: Apache-2.0
# All that a developer types. As root on Debian: `make setup` once, then any of the others.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

SETS := packaging/requirements
SUPPORTED := 3.9 3.11 3.13
PACKAGES := ostree systemd-container dbus rpm rpmlint debootstrap busybox-static iptables iproute2 e2fsprogs \
	util-linux procps openssl containerd runc gcc libc6-dev make pkg-config libsystemd-dev python3 python3-venv python3-dev
STAMP := .venv/.made

# An interpreter that runs: on the PATH, or pyenv's.
find_python = for python in python$(1) "$${PYENV_ROOT:-$$HOME/.pyenv}"/versions/$(1).*/bin/python3; do \
	if "$$python" -c '' 2>/dev/null; then echo "$$python"; break; fi; done

UNITS := $(patsubst .venv-%,unit-%,$(wildcard .venv-3.*))

# What others and cuts do to an act: about half of the lab.
ONCE := $(addprefix tests/lab/test_,cuts.py meanwhile.py others.py versions.py)

.PHONY: help setup check unit $(UNITS) sim host lab lab-once lab-rest test soak demo bench rpm clean

help: ## This list
	@sed -n 's/^\([a-z]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST)

setup: ## Install what the rest needs (root, Debian), make the environments
	apt-get -qq update
	DEBIAN_FRONTEND=noninteractive apt-get -qq install --yes --no-install-recommends $(PACKAGES) >/dev/null
	command -v go >/dev/null || DEBIAN_FRONTEND=noninteractive apt-get -qq install --yes golang-go >/dev/null
	$(MAKE) --no-print-directory $(STAMP)

$(STAMP): $(wildcard $(SETS)/*.txt)
	for version in $(SUPPORTED); do \
		python=$$($(call find_python,$$version)); \
		if [ -z "$$python" ]; then echo "no Python $$version here: not tested on it"; continue; fi; \
		set=py3.txt; dev=dev.txt; if [ $$version = 3.9 ]; then set=py39.txt; dev=dev39.txt; fi; \
		echo "environment for Python $$version"; \
		"$$python" -m venv --clear .venv-$$version; \
		.venv-$$version/bin/pip --quiet --disable-pip-version-check install --require-hashes --only-binary :all: \
			-r $(SETS)/build.txt; \
		.venv-$$version/bin/pip --quiet --disable-pip-version-check install --require-hashes --no-build-isolation \
			-r $(SETS)/$$set -r $(SETS)/$$dev; \
	done
	python=$$(for version in 3.11 3.13 3.9; do [ -x .venv-$$version/bin/python ] && echo .venv-$$version && break; done); \
	[ -n "$$python" ] || { echo "no supported Python here ($(SUPPORTED))" >&2; exit 1; }; \
	rm -rf .venv; ln -sfn "$$python" .venv; touch $(STAMP)

check: $(STAMP) ## No root, a minute: linters and unit tests on one Python
	.venv/bin/python -m pytest tests/unit

unit: $(STAMP) $(UNITS)
	$(if $(UNITS),,$(MAKE) --no-print-directory unit)

$(UNITS): unit-%: $(STAMP)
	.venv-$*/bin/python -m pytest tests/unit

sim: $(STAMP)
	.venv/bin/python -m pytest tests/sim

host: $(STAMP)
	.venv/bin/python -m pytest tests/host

# Two nodes side by side: much of a node's time is kubelet's pauses.
lab: $(STAMP)
	$(MAKE) --no-print-directory --jobs=2 --output-sync=target lab-once lab-rest

lab-once: $(STAMP)
	.venv/bin/python -m pytest $(ONCE)

lab-rest: $(STAMP)
	.venv/bin/python -m pytest tests/lab $(addprefix --ignore=,$(ONCE))

test: $(STAMP) ## Everything, as root: units on each Python, the simulated node, the real kernel, the real node
	$(MAKE) --no-print-directory --jobs=2 --output-sync=target host unit
	$(MAKE) --no-print-directory sim
	$(MAKE) --no-print-directory lab

soak: $(STAMP) ## 10,000 random mount worlds and a million histories, other ones each time (root, hours)
	OSTREEWATCHD_WORLDS=$${OSTREEWATCHD_WORLDS:-10000} .venv/bin/python -m pytest -s \
		tests/host/test_random_worlds.py tests/host/test_warm.py
	.venv/bin/python -m pytest --hypothesis-profile=soak tests/unit
	OSTREEWATCHD_SIM_HISTORIES=$${OSTREEWATCHD_SIM_HISTORIES:-1000000} OSTREEWATCHD_SIM_FIRST=$$RANDOM$$RANDOM$$RANDOM \
		.venv/bin/python -m pytest -s tests/sim/test_histories.py -k random
	OSTREEWATCHD_CUTS=all .venv/bin/python -m pytest -s tests/lab/test_cuts.py tests/lab/test_orders.py
	OSTREEWATCHD_EXPIRY=1 .venv/bin/python -m pytest tests/lab/test_expiry.py

demo: ## The fault and its cure on a real node, told as it happens
	python3 -m tests.lab.demo

bench: $(STAMP) ## Figures against the floor and the script
	.venv/bin/python -m bench

rpm: ## The RPM for this machine's Python, into dist/
	python3 packaging/rpm/build.py --python python3 --out dist

clean: ## What was built here; the lab's cache stays (python3 -m tests.lab prune)
	rm -rf .venv .venv-3.* dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis
