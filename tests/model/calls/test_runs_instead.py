"""Which of two methods of one name an object runs: the one that overrides, unless that calls the other."""

from __future__ import annotations

import pytest

from amplint.base.target import nothing_declared
from amplint.engine.reading import read_alone
from amplint.model.calls.external_calls import runs_instead
from amplint.sources.source import Source

TEXT = """\
class Base:
    def run(self):
        pass

class Own(Base):
    def run(self):
        pass

class Other(Base):
    def run(self):
        pass

    def more(self):
        pass

class Both(Base):
    def run(self):
        super().run()

class Later(Base):
    def run(self):
        first = super().run
        first()

class Apart:
    def run(self):
        pass
"""


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("Base.run", "Own.run", True),
        ("Own.run", "Base.run", True),
        ("Own.run", "Other.run", True),
        ("Base.run", "Both.run", False),
        ("Base.run", "Later.run", False),
        ("Base.run", "Apart.run", False),
        ("Base.run", "Other.more", False),
        ("Own.run", "Own.run", False),
    ],
)
def test_no_object_runs_both(first: str, second: str, expected: bool) -> None:
    module = read_alone(Source("classes.py", TEXT), nothing_declared())
    methods = {f"{each.cls.name}.{each.name}": each for each in module.functions if each.cls is not None}
    assert runs_instead(module, methods[first], methods[second]) is expected
