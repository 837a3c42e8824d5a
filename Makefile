# `make run` trains and `make test` checks, from a fresh clone. `make help` lists the rest.

# Where the virtual environment lies, which Python makes it (empty: the first fitting one), what `make run`, `watch` and `soak`, and pytest are given.
VENV = .venv
PYTHON ?=
ARGS ?=
PYTEST_ARGS ?=

BIN = $(VENV)/bin
PIP = $(BIN)/python -m pip --disable-pip-version-check install --no-input
UV_VERSION = 0.13.9
ATHERIS_VERSION = 3.0.0
FUZZ_SECONDS ?= 120

.DEFAULT_GOAL := help
.PHONY: help run watch test suite test-all presets soak fuzz lint format docs results game assembler lock clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' $(firstword $(MAKEFILE_LIST)) | expand -t 16
	@echo '  ARGS="-c FILE --set run.seed=2" goes to run.py (or to what watch, presets and soak run), PYTEST_ARGS to pytest; PYTHON=... and VENV=... choose Python and its folder'

run: $(VENV)/.run ## train as default.cfg says
	@$(BIN)/python run.py $(ARGS)

watch: $(VENV)/.run ## see the policy that comes along drive, twenty seconds on each circuit (without a display: a film, watch.mp4)
	@$(BIN)/kartrl watch kartrl/kart/weights/kart.pt -l '*' --seconds 20 $(ARGS)

test: lint suite ## all that lint looks at, and all tests, several at once (PYTEST_ARGS="-n 0": one after another)

suite: $(VENV)/.dev
	$(BIN)/python -m pytest --numprocesses auto --dist worksteal --durations=60 $(PYTEST_ARGS)

test-all: PYTEST_ARGS += -m "slow or not slow"
test-all: test ## the same, and what takes long (before a release)

presets: $(VENV)/.dev ## whether small presets still learn: three seeds of each, half an hour on a quiet machine (before a release)
	$(BIN)/python benchmarks/presets.py $(ARGS)

soak: $(VENV)/.dev ## twenty minutes of random faults under load, and a ledger of them
	$(BIN)/python tests/faults/soak.py $(ARGS)

fuzz: $(VENV)/.dev ## look for inputs that break the readers of configurations, checkpoints, start states and movies (FUZZ_SECONDS for each)
	$(PIP) --quiet atheris==$(ATHERIS_VERSION)
	@set -e; work=$$(mktemp -d); trap 'rm -rf "$$work"' EXIT; \
	for reader in config checkpoint emulator; do \
		echo "Fuzzing the reader of $$reader for $(FUZZ_SECONDS) s"; \
		TMPDIR=$$work PYTHONPATH=tests/helpers $(BIN)/python tests/fuzz/fuzz_$$reader.py -max_total_time=$(FUZZ_SECONDS) \
			-artifact_prefix=$$work/ -print_final_stats=1 -verbosity=0 || { cp "$$work"/crash-* "$$work"/oom-* "$$work"/timeout-* . 2>/dev/null; exit 1; }; \
	done

lint: $(VENV)/.dev ## style, types, dead code and which room imports which
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/vulture
	$(BIN)/lint-imports

format: $(VENV)/.dev ## format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.dev ## the API reference of `import kartrl`, as pages in build/docs
	$(BIN)/python -W "ignore:Cannot determine where" -m pdoc --docformat google --no-show-source \
		--output-directory build/docs kartrl '!kartrl\.'

results: $(VENV)/.run ## write docs/results/ from the records of results/
	$(BIN)/python benchmarks/result_pages.py

game: assembler $(VENV)/.run ## assemble the bundled games (needs cc65)
	$(BIN)/python game/build.py
	$(BIN)/python game/rapids.py

assembler:
	@command -v ca65 ld65 >/dev/null || { echo 'make game needs the assembler ca65 and the linker ld65: install the package cc65.' >&2; exit 2; }

lock: ## resolve the locks anew (UPGRADE=1: to the newest versions)
	@$(find_python); work=$$(mktemp -d) && trap 'rm -rf "$$work"' EXIT && set -ex && \
	$$python -m venv $$work && $$work/bin/pip --disable-pip-version-check install --quiet uv==$(UV_VERSION) && \
	$(call resolve,requirements.lock) && \
	$(call resolve,requirements-dev.lock) --extra atari --extra dev --constraint requirements.lock

clean: ## remove the virtual environment and caches, never logs
	rm -rf $(VENV) build *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis .grimp_cache .import_linter_cache
	find $(wildcard kartrl game tests) -name __pycache__ -type d -prune -exec rm -rf {} +

# One resolution for all platforms and every supported Python, each difference as a marker.
resolve = $$work/bin/uv pip compile --quiet --universal --python-version 3.11 --fork-strategy fewest --no-annotate \
	--custom-compile-command 'make lock   (without the libraries of CUDA: see tool.uv in pyproject.toml)' \
	$(if $(UPGRADE),--upgrade) pyproject.toml --output-file $(1)

# A stamp tells that an installation has gone through; without it, or with another lock, it starts over.
$(VENV)/.run: requirements.lock pyproject.toml
	@if [ -n "$$(ls -A $(VENV) 2>/dev/null)" ] && [ ! -e $(VENV)/pyvenv.cfg ]; then \
		echo '$(VENV) exists and is no virtual environment; choose another folder: make VENV=FOLDER' >&2; exit 2; \
	fi; \
	$(find_python); \
	echo "Installing kartrl's libraries into $(VENV) with $$($$python --version) (a few minutes, once)"; \
	$$python -m venv --clear $(VENV)
	$(PIP) -r requirements.lock
	$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.run requirements-dev.lock
	$(PIP) -r requirements-dev.lock
	@touch $@

define find_python
for python in $(or $(PYTHON),python3 python3.14 python3.13 python3.12 python3.11 python) none; do \
	$$python -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' 2>/dev/null && break; \
done; \
if [ $$python = none ]; then \
	echo 'kartrl needs Python 3.11 to 3.14; $(if $(PYTHON),$(PYTHON) is none of them.,none is on the PATH.) Install one, or name it: make run PYTHON=/path/to/python3.12' >&2; exit 2; \
fi; \
if ! $$python -c 'import ensurepip, venv' 2>/dev/null; then \
	echo "$$python cannot make virtual environments: install the package python3-venv (Debian, Ubuntu)." >&2; exit 2; \
fi
endef
