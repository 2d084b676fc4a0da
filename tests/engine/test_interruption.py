"""Work for which nobody waits any more ends where it is, and leaves nothing behind."""

from __future__ import annotations

from itertools import count

import pytest

from amplint import check
from amplint.base.interruption import Interrupted, go_on, until
from tests.shapes import branches


@pytest.mark.parametrize("after", [0, 1, 10, 40])
def test_the_analysis_ends_at_once(after: int) -> None:
    asked = count()
    text = branches(8)
    before = check(text)
    with until(lambda: next(asked) >= after), pytest.raises(Interrupted):
        check(text)
    assert next(asked) == after + 1
    assert check(text) == before != []


def test_nothing_ends_that_nobody_has_asked_to() -> None:
    go_on()
    with until(lambda: False):
        go_on()
