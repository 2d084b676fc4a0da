"""Small programs that make torch print the messages: each is a function, and says which one.

`python -m tests.explaining.programs` runs all, and prints what each has written to stderr, as JSON.
"""

from __future__ import annotations

import io
import json
import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, suppress

from tests.explaining import programs_of_dtypes, programs_of_regions, programs_of_scalers
from tests.explaining.registry import PROGRAMS

__all__ = ["PROGRAMS", "programs_of_dtypes", "programs_of_regions", "programs_of_scalers"]


@contextmanager
def _quietly() -> Iterator[io.StringIO]:
    """Without what other tests have set: each warning is printed once a program."""
    with warnings.catch_warnings(), redirect_stderr(io.StringIO()) as printed:
        warnings.simplefilter("always")
        yield printed


def main() -> None:
    """Run all programs and print what they print."""
    texts = {}
    for _, program in PROGRAMS:
        with _quietly() as printed, suppress(SystemExit):
            try:
                program()
            except SystemExit as stop:
                print(stop.code, file=sys.stderr)
                raise
            except Exception:
                traceback.print_exc()
        texts[program.__name__] = printed.getvalue()
    json.dump(texts, sys.stdout)


if __name__ == "__main__":
    main()
