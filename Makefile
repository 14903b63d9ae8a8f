# Two verbs do everything on a fresh machine: make up, make test.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
PY := .venv/bin/python
# Numba keeps compiled kernels here, so that a second run compiles nothing.
export NUMBA_CACHE_DIR ?= $(CURDIR)/.muster/numba
# And Python what it compiled, also where its user wants no such files beside sources, as in many a
# container: otherwise every program of a test compiles all modules again.
export PYTHONPYCACHEPREFIX ?= $(CURDIR)/.muster/pycache
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help install up test explore simulate fuzz check format kube image conformance kernels bench rows docs lock clean

help: ## List the verbs
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

install: ## Create .venv with the locked dependencies (other verbs do this by themselves)
	@tools/setup.sh

# WORLD=kube: on a real control plane instead of the embedded one. PROFILE=volcano, kube-batch: in the
# words of these. ARGS: see muster up --help.
up: install ## Start muster on this laptop and show it at work (WORLD=kube: on a real API server)
	@if [ "$(WORLD)" = kube ]; then tools/kube/build.sh; fi
	@.venv/bin/muster up --world $(or $(WORLD),embedded) --profile $(or $(PROFILE),muster) $(ARGS)

# Without a control plane the tests that need one are reported as not run. FAULTS=all: every fault at
# every write, on the real API server too, and every service killed at every moment: that takes long.
test: export MUSTER_FAULTS = $(FAULTS)
test: ## Run all tests, those against a real API server included
	@KERNELS=later tools/setup.sh
	@.venv/bin/muster kernels >/dev/null 2>&1 & $(MAKE) --no-print-directory check || { kill $$!; exit 1; }; wait $$!
	@tools/kube/build.sh && KUBE=1.33 tools/kube/build.sh || echo "make kube failed: see above"
	@tools/helm/build.sh || echo "no helm: the tests of the chart are listed as not run"
	@tools/prometheus.sh || echo "no Prometheus: the tests that need one are listed as not run"
	@tools/chromium.sh || echo "no Chromium: the tests that need one are listed as not run"
	@$(PY) -m pytest -q -n auto --dist loadgroup --no-loadscope-reorder || { [ $$? = 1 ] \
	  && echo "Of what failed, tests of real programs are tried once more, alone:" \
	  && $(PY) -m pytest -q --last-failed --last-failed-no-failures none --second-look; }

# SECONDS: for how long. ARGS: other tests, or options of pytest.
explore: install ## Run tests/properties with random draws, again and again: SECONDS=600
	@$(PY) tools/explore.py $(or $(SECONDS),600) $(ARGS)

# INPUTS: how many. ARGS: --seed N, --only TARGET, --again NUMBER of an input that failed.
fuzz: install ## Feed drawn objects, conf files, reviews and events to every intake: INPUTS=100000
	@$(PY) -m tools.fuzz.run $(or $(INPUTS),100000) $(ARGS)

# Two at a time: types take as long as all the rest.
check: install ## Format, lint, types, import contracts, spelling
	@$(MAKE) --no-print-directory --jobs 2 --output-sync check-types check-rest

check-types:
	@.venv/bin/mypy

check-rest:
	@.venv/bin/ruff format --check .
	@.venv/bin/ruff check .
	@.venv/bin/lint-imports --no-logo
	@.venv/bin/codespell

# KUBE: a minor, such as 1.33; without it the newest.
kube: ## Obtain a Kubernetes control plane: MUSTER_KUBE_BIN, else the cache, else a build with Go (KUBE=1.33)
	@KUBE=$(KUBE) tools/kube/build.sh

# ARGS: --compress, --folder.
image: install ## Write the image of all services as an OCI layout into dist/image; needs no container engine
	@$(PY) -m tools.image.build $(ARGS)

# START: the first seed. ARGS: see python -m tools.simulate --help.
simulate: install ## Tell stories of clusters on bad days, drawn from seeds: SEEDS=100
	@$(PY) -m tools.simulate $(or $(SEEDS),100) --start $(or $(START),0) $(ARGS)

# The cases of the peers lie beside the checkout, if anywhere.
conformance: install ## Run case files through the engine: CASES=folder, ARGS="--only TAG --id ID"
	@$(PY) -m tools.$(if $(findstring volcano,$(notdir $(CASES))),volcano,kai)_cases.conformance $(or $(CASES),../shared/cases/kai) $(ARGS)

kernels: install ## Compile the engine's kernels ahead (seconds the first time)
	@.venv/bin/muster kernels

bench: install ## List the benchmarks; CASE=name runs one, KEEP=1 stores its figure
	@$(PY) -m benchmarks.run $(CASE) $(if $(KEEP),--keep)

rows: install ## Which promise is shown by which test; also writes docs/coverage.md
	@$(PY) tools/rows.py
	@$(PY) tools/rows.py --write

format: install ## Rewrite the sources in the project's format
	@.venv/bin/ruff format .
	@.venv/bin/ruff check --fix .

docs: install ## Write what is made from the sources: CRDs, manifests, reference pages, the picture of the walk, coverage
	@$(PY) -m muster.api.crds
	@$(PY) -m tools.manifests
	@$(PY) tools/monitoring.py
	@$(PY) tools/reference.py
	@$(PY) tools/reasons_page.py
	@$(PY) tools/cli_reference.py --write
	@$(PY) -m tools.people_pages
	@$(PY) tools/walk_picture.py
	@$(PY) tools/shares_picture.py
	@$(PY) tools/rows.py --write

lock: install ## Resolve the dependencies anew into requirements.lock
	@$(PY) -m pip install --quiet --disable-pip-version-check "uv==0.13.7"
	@.venv/bin/uv pip compile --system-certs --quiet --universal --python-version 3.11 --extra dev --generate-hashes \
	  --no-emit-index-url --no-emit-find-links --no-header --output-file requirements.lock pyproject.toml
	@.venv/bin/uv pip compile --system-certs --quiet --universal --python-version 3.11 --extra tracing --constraint requirements.lock --generate-hashes \
	  --no-emit-index-url --no-emit-find-links --no-header --no-annotate --output-file requirements-runtime.lock pyproject.toml

clean: ## Remove what the other verbs made in this folder
	@rm -rf .venv .muster .mypy_cache .ruff_cache .pytest_cache .hypothesis dist build
