"""`python -m amplint`."""

import os
import sys

# Python looks for modules in the current directory first. What lies there, a json.py or a torch.py, is linted, not run.
if not getattr(sys.flags, "safe_path", False) and sys.path[0] != os.path.dirname(os.path.dirname(__file__)):
    del sys.path[0]

from amplint.cli import main

if __name__ == "__main__":
    sys.exit(main())
