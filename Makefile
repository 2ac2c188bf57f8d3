# Set-up, tests, lint and benchmarks; needs only Python >= 3.11 and make.
# TORCH_INDEX=URL takes PyTorch from another package index.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PEERS := $(VENV)/.peers

.PHONY: quickstart test test-imitated test-sanitized test-slow test-gpu lint bench bench-gpu wheel clean
quickstart: $(STAMP)
	$(BIN)/bertsmith quickstart

test: $(STAMP)
	$(BIN)/python -m pytest -n 2 --dist loadfile

# What a matrix unit (AMX) and products of float16 run, where there are none; sizes of 1088 would take
# minutes there, and narrower vectors have neither.
TILES := --imitate tiles -k 'not 1088 and not narrower' tests/model/test_cpu_*.py
FLOAT16 := --imitate float16 -k 'not narrower' tests/model/test_*float16*.py tests/model/test_*_loss.py \
	tests/model/test_cpu_token_projections.py
test-imitated: $(STAMP)
	$(BIN)/python -m pytest -n 2 $(TILES)
	$(BIN)/python -m pytest -n 2 $(FLOAT16)

# A function in C++ that touches memory which is not its own ends its test with a report: g++'s
# AddressSanitizer, by calls, or building would take minutes. Python leaks to its end, and a test asks
# for more memory than there is. Libraries that tests build without CXX are as ever.
SANITIZED = CXX='g++ -fsanitize=address --param asan-instrumentation-with-call-threshold=0' \
	ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 \
	LD_PRELOAD="$$(g++ -print-file-name=libasan.so) $$(g++ -print-file-name=libstdc++.so)" \
	$(BIN)/python -m pytest -n 2 --capture=no
test-sanitized: $(STAMP)
	$(SANITIZED) tests/model/test_cpu_*.py tests/model/test_*_loss.py tests/model/test_from_ids.py \
		tests/train/test_cpu_updates.py tests/text/test_fast_wordpiece.py tests/test_cores.py
	$(SANITIZED) $(TILES)
	$(SANITIZED) $(FLOAT16)

test-slow: $(STAMP)
	$(BIN)/python -m pytest -m 'slow and not gpu'

test-gpu: $(STAMP)
	$(BIN)/python -m pytest -m gpu

lint: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

bench: $(PEERS)
	$(BIN)/python -m benchmarks

bench-gpu: $(PEERS)
	$(BIN)/python -m benchmarks.gpu

# With functions in C++ for all processors that bertsmith/processors.py names; some minutes.
wheel: $(STAMP)
	HATCH_BUILD_HOOK_ENABLE_CUSTOM=1 $(BIN)/pip wheel --quiet --no-deps --no-build-isolation \
		--wheel-dir dist .

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt $(addprefix --index-url ,$(TORCH_INDEX)) torch
	# Into the environment: pip ignores constraints for what it builds with in isolation.
	$(BIN)/pip install --quiet --constraint constraints.txt hatchling editables
	$(BIN)/pip install --quiet --constraint constraints.txt --no-build-isolation --editable '.[test,lint]'
	touch $(STAMP)

$(PEERS): $(STAMP)
	$(BIN)/pip install --quiet --constraint constraints.txt --no-build-isolation --editable '.[bench]'
	touch $(PEERS)

clean:
	rm -rf $(VENV)
