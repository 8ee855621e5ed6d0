# `make demo` and `make test` need Python 3.11 or later, make and git; they set up .venv from the lock files themselves.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-fast check bench torture lowest newest lock clean

demo: .venv/demo-installed
	$(BIN)/multistep demo --out runs/demo

test: .venv/dev-installed
	$(BIN)/python -m pytest --numprocesses auto --dist loadfile --no-loadscope-reorder

# What one runs while working: a minute or two.
test-fast: .venv/dev-installed
	$(BIN)/python -m pytest -m "not slow" --numprocesses auto --dist loadfile --no-loadscope-reorder

check: .venv/dev-installed
	$(BIN)/ruff format --check src tests torture
	$(BIN)/ruff check src tests torture
	$(BIN)/basedpyright
	$(BIN)/python -m pytest -q tests/test_layers.py

bench: .venv/dev-installed
	$(BIN)/multistep bench training --out runs/bench-training
	$(BIN)/multistep bench cartpole --out runs/bench-cartpole

# Kills, damaged files, disks, two writers: at most 20 minutes, with a table of what was tried and what was lost.
torture: .venv/dev-installed
	$(BIN)/python -m torture --minutes 20

# The quick tests with the lowest and with the newest versions that pyproject.toml allows, each in an environment of its own.
lowest: RESOLUTION := lowest-direct
newest: RESOLUTION := highest
lowest newest:
	test -d .venv-$@ || $(PYTHON) -m venv .venv-$@
	.venv-$@/bin/python -m pip install --quiet uv
	.venv-$@/bin/uv pip install --quiet --python .venv-$@/bin/python \
		--resolution $(RESOLUTION) --editable ".[tasks,agents,sweeps,sklearn,onnx,casadi,dev]"
	.venv-$@/bin/python -m pytest -m "not slow"

# The lock files name every version; nothing is resolved at installation (that takes pip many minutes).
.venv/demo-installed: requirements/demo.lock pyproject.toml
	test -d .venv || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --no-deps -r requirements/demo.lock
	$(BIN)/python -m pip install --quiet --no-deps --editable .
	touch $@

# torch first and by itself: where a build without CUDA is at hand, it is taken and nothing else is pulled in.
.venv/dev-installed: requirements/dev.lock pyproject.toml
	test -d .venv || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint requirements/dev.lock torch==2.13.0
	$(BIN)/python -m pip install --quiet --no-deps -r requirements/dev.lock
	$(BIN)/python -m pip install --quiet --no-deps --editable .
	touch $@

CUDA_PACKAGES := cuda-bindings cuda-pathfinder cuda-toolkit triton $(addprefix nvidia-, \
	cublas cuda-cupti cuda-nvrtc cuda-runtime cudnn-cu13 cufft cufile curand cusolver cusparse cusparselt-cu13 nccl-cu13 \
	nvjitlink nvshmem-cu13 nvtx)

# What torch brings along on a machine with CUDA is left to its own installation above.
lock:
	test -d .venv || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --all-extras pyproject.toml -o requirements/dev.lock \
		--no-header $(addprefix --no-emit-package ,$(CUDA_PACKAGES))
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --extra tasks pyproject.toml -o requirements/demo.lock \
		--no-header --constraint requirements/dev.lock

clean:
	rm -rf .venv runs
