# make run     the workbench on a sample repository with three boxes (text where there is no terminal)
# make test    everything: lint, format, types, import layers, tests; as root also as an unprivileged user
# make check   the same without the tests
# make bench   one table of measured times, raw samples under bench/results
# make picture writes docs/workbench.svg anew
# make lock    writes requirements.lock anew from what is installed
# make clean   removes what the above made here

.PHONY: run test check bench lock picture clean environment environment-dev
.DEFAULT_GOAL := run

environment:
	@sh .ci/environment run

environment-dev:
	@sh .ci/environment dev

run: environment
	@.venv/bin/cloche demo

test: environment-dev
	@sh .ci/suite

check: environment-dev
	@sh .ci/suite --no-tests

bench: environment
	@.venv/bin/python -m bench

lock: environment-dev
	@sh .ci/lock

picture: environment-dev
	@.venv/bin/python .ci/picture.py

clean:
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache bench/results
