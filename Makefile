# Everything runs in .venv, which the first target makes from requirements.lock.
#   make demo     write a ResNet-50, compile it for 36 chips, check the result
#   make test     all tests        make lint    style, types and layers
#   make walls    all but each product without the product; other versions of Python
#   make docs     the documents as a site in build/site
#   make coverage what the tests reach, by package
#   make bench    measured bars    make format  rewrite in the project's style
#   make wheel    a wheel of this platform in dist, with its kernels compiled
#   make lock     pin the dependencies of pyproject.toml anew
# PYTHON names the interpreter that .venv is made with.

PYTHON ?= python3
# Each worker takes a run of files, so that few kernels are compiled by two at once. One more than the
# cores of CI: tests wait for processes and files for a sixth of their time.
PYTEST_ARGS ?= -n 3 --dist worksteal --durations=30 --assert=plain --showlocals
PIP_INSTALL = .venv/bin/python -m pip install --quiet --disable-pip-version-check
READY = .venv/.ready
PLUGIN_READY = .venv/.acme-ready
PLUGINS = tests/acme_passes tests/acme_mesh

# Recipes find the tools of .venv under their plain names, as in the README.
export PATH := $(CURDIR)/.venv/bin:$(PATH)

.PHONY: setup demo test lint walls docs coverage bench wheel format lock clean

setup: $(READY)

$(READY): pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "mcm-compiler needs Python 3.11 or newer, and '$(PYTHON)' is not;" \
	    "name another one: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@test -x .venv/bin/python || $(PYTHON) -m venv .venv
	$(PIP_INSTALL) --requirement requirements.lock
	$(PIP_INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@

# Plug-ins are installed for real, not in place: the tests see what a third-party plug-in sees.
$(PLUGIN_READY): $(READY) $(shell find $(PLUGINS) -name '*.py' -o -name '*.toml')
	$(PIP_INSTALL) --no-deps --no-build-isolation --force-reinstall $(PLUGINS:%=./%)
	@touch $@

demo: $(READY)
	mkdir -p build/demo
	mcmc zoo resnet50 -o build/demo/resnet50.onnx
	mcmc compile build/demo/resnet50.onnx --target mcm36 -o build/demo/resnet50.mcm36 --force
	mcmc check build/demo/resnet50.mcm36

test: $(PLUGIN_READY)
	pytest $(PYTEST_ARGS)

lint: $(READY)
	ruff check .
	ruff format --check .
	pyright
	lint-imports
	python tools/check_limits.py
	python tools/count_lines.py --check
	python tools/core_closure.py --check
	python tools/check_prose.py

walls: $(READY)
	python tools/without.py
	python tools/other_pythons.py

docs: $(READY)
	NO_MKDOCS_2_WARNING=1 mkdocs build --strict --quiet

coverage: $(PLUGIN_READY)
	pytest $(PYTEST_ARGS) --cov --cov-report=json:build/coverage.json
	python tools/coverage_by_package.py build/coverage.json

bench: $(READY)
	@for script in tools/bench/*.py; do python "$$script" || exit 1; done

wheel: $(READY)
	python tools/build_wheel.py --outdir dist

format: $(READY)
	ruff check --fix .
	ruff format .

lock:
	$(PYTHON) tools/lock.py

clean:
	rm -rf .venv build dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find mcm_compiler passes hardware models tests tools -name __pycache__ -prune -exec rm -rf {} +
