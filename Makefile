# Everything below sets itself up: a virtual environment and its packages come first where they are missing.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
BENCH := .venv-bench
LOWEST := .venv-lowest
SPARK := .venv-spark
# Many processes start below; compiled modules are kept for the next, whatever the environment says.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help demo live pictures notebook report docs test lint doctest test-slow test-spark test-lowest bench format lock clean

help:  ## Show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 20

$(READY): pyproject.toml requirements.lock
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --no-compile --no-deps --require-hashes --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

demo: $(READY)  ## Keep the all-time means of 328,521 real flights from a window of 512 records
	$(BIN)/python -m vestige.demo

live: $(READY)  ## Replay the flights of New York in the browser, and ask for removals there
	$(BIN)/vestige serve --demo

pictures: $(READY)  ## Redraw the pictures of docs/method.md and docs/code.md, and that of the page
	$(BIN)/python docs/pictures.py
	$(BIN)/python docs/live.py

notebook: $(READY)  ## Run the notebook of the docs, and write its outputs into it
	$(BIN)/python docs/notebook.py docs/guides/bench.ipynb

report: $(READY)  ## Try each claim of the paper with a moderate number of trials, and write docs/lab/report.html
	$(BIN)/vestige lab run --trials 12 --fresh --out out/report
	$(BIN)/vestige lab run retention long_lived_records --out out/report
	$(BIN)/vestige lab report --out out/report --html docs/lab/report.html --figures out/report
	cp out/report/retention.png docs/lab/

docs: $(READY)  ## Build the site into out/docs; a warning is an error
	@rm -rf out/docs
	$(BIN)/sphinx-build --fresh-env --nitpicky --fail-on-warning --quiet docs out/docs
	@touch out/docs/built

test: $(READY)  ## Run the whole check: lint, types, import layers, site, tests
	@$(MAKE) --no-print-directory --jobs=2 --output-sync doctest lint docs
	$(BIN)/pytest -n 2 --dist worksteal tests docs README.md

lint: $(READY)  ## Check style, docstrings, types and import layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pydoclint --quiet src
	$(BIN)/mypy
	$(BIN)/lint-imports

doctest: $(READY)  ## Run the examples in the source; in a fresh clone this compiles most kernels, once for all tests
	$(BIN)/pytest src

test-slow: $(READY)  ## Run the tests that take long, or a part of them: make test-slow PART=2/4
	$(BIN)/pytest -n 2 --dist worksteal -m slow -o faulthandler_timeout=1200 $(if $(PART),--part $(PART)) tests

$(SPARK)/.ready: pyproject.toml
	$(PYTHON) -m venv $(SPARK)
	$(SPARK)/bin/python -m pip install --quiet --editable '.[spark]' 'pytest>=8.2,<10' 'hypothesis>=6.100'
	@touch $@

test-spark: $(SPARK)/.ready  ## Run the tests of streams on Spark, which needs Java, in an environment of their own
	@command -v java >/dev/null || { echo "Java is missing, which Spark needs: install the package default-jre-headless"; exit 1; }
	PYSPARK_PYTHON=$(CURDIR)/$(SPARK)/bin/python $(SPARK)/bin/pytest -o faulthandler_timeout=900 -W default \
	    tests/spark src/vestige/spark docs/guides/spark.md

test-lowest:  ## Try the oldest versions that pyproject.toml allows, in an environment of their own
	$(PYTHON) -m venv --clear $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet uv
	$(LOWEST)/bin/uv pip compile pyproject.toml --extra test --resolution lowest-direct --quiet \
	    --python $(LOWEST)/bin/python --no-header --no-annotate --output-file $(LOWEST)/lowest.txt
	$(LOWEST)/bin/uv pip install --quiet --python $(LOWEST)/bin/python --requirement $(LOWEST)/lowest.txt
	$(LOWEST)/bin/uv pip install --quiet --python $(LOWEST)/bin/python --no-deps --no-build-isolation --editable .
	NUMBA_CACHE_DIR=$(LOWEST)/kernels $(LOWEST)/bin/pytest -o filterwarnings=default README.md tests/test_numba.py \
	    tests/test_public.py tests/test_river.py tests/test_sklearn.py tests/test_figures.py tests/test_cli.py tests/test_cli_store.py tests/sources

$(BENCH)/.ready: pyproject.toml benchmarks/peers.txt
	$(PYTHON) -m venv $(BENCH)
	$(BENCH)/bin/python -m pip install --quiet --editable '.[audit,demo,postgres,serve,sketches]'
	@while read -r peer; do \
	    $(BENCH)/bin/python -m pip install --quiet $$peer || echo "peer not installed: $$peer"; \
	done < benchmarks/peers.txt
	@touch $@

bench: $(BENCH)/.ready  ## Measure speed beside other libraries, in one table; SHORT=1 only tries that all run
	$(BENCH)/bin/python benchmarks/run.py $(if $(SHORT),--short)

format: $(READY)  ## Format the code and fix what the linter can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lock:  ## Refresh requirements.lock: exact versions with hashes for Python 3.11 to 3.14
	$(PYTHON) -m venv .venv-lock
	.venv-lock/bin/python -m pip install --quiet uv
	.venv-lock/bin/uv pip compile pyproject.toml --extra test --universal --python-version 3.11 --upgrade --quiet \
	    --generate-hashes --no-emit-index-url --no-emit-find-links --no-annotate --no-header --output-file requirements.lock

clean:  ## Remove the virtual environments and all caches
	rm -rf $(VENV) $(BENCH) $(LOWEST) $(SPARK) .venv-lock .cache out .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
