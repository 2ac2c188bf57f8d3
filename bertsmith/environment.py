"""What PyTorch and what it stands on read from the environment when they are first needed.

The command line sets it before torch is imported; whoever computes in Python can do the same:
`from bertsmith.environment import prepare_environment; prepare_environment()`. What a person set
stays.

- oneDNN and torch keep a bf16 kernel for every shape they met, a thousand each by default, and
  every step of real text has another number of tokens: without a bound a run grows by gigabytes.
- Large tensors come on huge pages: 6% of a MINI step was page faults.
- Threads that share an operator meet after it, and spin for as long as 300,000 turns before they
  sleep. Beside other work one of them may not run meanwhile, and the others spin for as long as the
  system lets them. With 100,000 turns steps take three fifths of the time there; with 10,000, the
  slowest tenth of lone texts takes twenty times as long, since threads sleep between texts and wake
  on one core. Threads that share a core while another one is free are moved apart (`cores`), which
  ends the tenfold cases (`python -m benchmarks.busy`).
"""

from __future__ import annotations

import os

ENVIRONMENT = {
    "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "128",
    "LRU_CACHE_CAPACITY": "128",
    "THP_MEM_ALLOC_ENABLE": "1",
}
SPINNING = {"GOMP_SPINCOUNT": "100000"}
"""Of GNU's OpenMP, which torch computes with on Linux."""
_POLICY = "OMP_WAIT_POLICY"
"""How threads are to wait, in a word; a count would overrule it."""


def prepare_environment() -> None:
    """Sets what nobody has set."""
    given = ENVIRONMENT if _POLICY in os.environ else {**ENVIRONMENT, **SPINNING}
    for name, value in given.items():
        os.environ.setdefault(name, value)
