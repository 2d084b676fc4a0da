"""`python -m amplint`."""

import sys

from amplint.cli import main

if __name__ == "__main__":
    sys.exit(main())
