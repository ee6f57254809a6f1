# One word for each thing that one does here. `make help` lists them.
PRESET ?= release
PREFIX ?= /usr/local
JOBS ?= $(shell nproc)
BUILD := build/$(PRESET)
CPP_FILES = $(shell git ls-files 'src/*.cpp' 'src/*.h' 'tests/*.cpp' 'bench/*.cpp')

.DEFAULT_GOAL := help
.PHONY: help setup build demo test bench fuzz lint format install bundle clean

help:  ## this list
	@sed -nE 's/^([a-z]+):[^#]*## (.*)/\1\t\2/p' $(MAKEFILE_LIST) | awk -F'\t' '{ printf "  make %-9s%s\n", $$1, $$2 }'
	@echo "  variables: PRESET=release|debug|asan  JOBS=$(JOBS)  PREFIX=$(PREFIX)"

setup:  ## bring what is missing: Debian packages, the Python environment (5 GB), C sources
	@tools/setup.sh

build: setup  ## build the front; ./autotriton runs it
	@test -e $(BUILD)/build.ninja || cmake --preset $(PRESET)
	@cmake --build $(BUILD) --parallel $(JOBS) --target autotriton
	@ln -sfn $(BUILD)/src/cli/autotriton autotriton

demo: build  ## judge the examples: good answers, a wrong one, a cheat, a raw reply
	@tools/demo.sh

test: build  ## build and run all tests, the quick ones first
	@cmake --build $(BUILD) --parallel $(JOBS) --target all all_verify_interface_header_sets
	@ctest --preset $(PRESET) --parallel $(JOBS) -L unit
	@ctest --preset $(PRESET) -LE "unit|suite"

bench: build  ## time what is timed
	@cmake --build $(BUILD) --parallel $(JOBS)
	@bench/run

fuzz:  ## feed each target of fuzz/ for SECONDS (60): what reads bytes that nobody vouches for
	@tools/setup.sh --fuzz
	@fuzz/run $(or $(SECONDS),60)

lint:  ## clang-format, clang-tidy, ruff, mypy
	@tools/setup.sh --lint
	@tools/lint.sh $(BUILD)

format:  ## lay out the C++ files
	@tools/setup.sh --lint
	@clang-format -i $(CPP_FILES)

install: build  ## install under PREFIX: lib/autotriton, and a link in bin
	@cmake --install $(BUILD) --prefix $(PREFIX)

bundle: build  ## one folder, and one file, that run on other machines
	@tools/bundle.sh $(BUILD)

clean:  ## remove what was built here (the cache folder stays)
	rm -rf build autotriton
