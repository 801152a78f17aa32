# The course in two commands: `make lab` to learn, `make test` to check everything. `make help` lists the rest.

SHELL := /bin/bash
VENV := .venv
BIN := $(VENV)/bin

.PHONY: help setup lab update test test-gpu bench notebooks docs site test-site lint format clean system-packages

help:  ## what each command does
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-16s %s\n", $$1, $$2}' Makefile

lab: setup  ## set up if needed and open the first chapter in JupyterLab
	@bash scripts/lab.sh

update: setup  ## the newest chapters and kernels; your answers, predictions, notes and cells stay
	@$(BIN)/course update
	@bash scripts/setup.sh
	@bash scripts/trust.sh

test: setup  ## set up if needed and run everything that needs no GPU
	@bash scripts/test.sh

test-gpu: setup  ## the tests that need an NVIDIA GPU; TEST_WORKERS=8 uses more cores
	$(BIN)/python -m pytest -m "gpu and not whole_gpu" -n $${TEST_WORKERS:-2} --maxschedchunk 1 tests/gpu
	$(BIN)/python -m pytest -m whole_gpu tests/gpu

bench: setup  ## measure this machine; rows go to benchmarks/results
	$(BIN)/course bench

notebooks: setup  ## chapters/ to notebooks/, exercises/ and solutions/; lectures are executed on the CPU
	$(BIN)/python -m course_lib.book

docs: setup  ## refresh the generated tables and pictures of README.md and docs/
	$(BIN)/python -m course_lib.book.pages

site: setup  ## the course as a static site in build/site/html; builds offline
	@$(BIN)/python -m course_lib.book.site --check || \
		$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[site]'
	$(BIN)/python -m course_lib.book.site

test-site: site  ## build the site and test it in a browser: links, pictures, narrow screens, light and dark
	$(BIN)/python -m pytest -q -s -p no:nbval tests/site

lint: setup  ## ruff and the search for stray files
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python scripts/stray_files.py

format: setup  ## let ruff tidy the Python files
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

setup:  ## make .venv and install the course into it
	@bash scripts/setup.sh

system-packages:  ## Debian and Ubuntu: install what pip cannot (asks for sudo)
	@bash scripts/system_packages.sh

clean:  ## remove the environment and caches; never your answers in work/
	rm -rf $(VENV) build artifacts .pytest_cache .ruff_cache .hypothesis *.egg-info
	find . \( -path ./work -o -path ./.git \) -prune -o -name __pycache__ -prune -exec rm -rf {} +
