"""`python -m bertsmith ...` is `bertsmith ...`: the form that torchrun starts."""

import sys

from bertsmith.cli import main

if __name__ == "__main__":
    sys.exit(main())
