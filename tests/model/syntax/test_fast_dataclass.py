"""The classes of nodes are made as the standard library would make them."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from amplint.model.syntax import fast_dataclass


def classes(dataclass: Any, field: Any) -> tuple[Any, Any]:
    @dataclass(eq=False, slots=True)
    class Base:
        id: int
        note: str = field(default="none", repr=False)

    @dataclass(eq=False, slots=True)
    class Below(Base):
        many: list[int] = field(default_factory=list)

        def double(self) -> int:
            return 2 * self.id

    return Base, Below


@pytest.fixture(params=["dataclasses", "quick"])
def made(request: pytest.FixtureRequest) -> tuple[Any, Any]:
    module: Any = {"dataclasses": dataclasses, "quick": fast_dataclass}[request.param]
    return classes(module.dataclass, module.field)


def test_fields_of_bases_come_first_and_defaults_are_filled_in(made: tuple[Any, Any]) -> None:
    base, below = made
    one, other = below(1), below(2, "b", many=[3])
    assert (one.id, one.note, one.many, one.double()) == (1, "none", [], 2)
    assert (other.id, other.note, other.many) == (2, "b", [3])
    assert isinstance(one, base)
    assert below(1).many is not one.many
    assert below(1) != one


def test_what_is_no_field_is_refused(made: tuple[Any, Any]) -> None:
    base, below = made
    with pytest.raises(TypeError):
        base()
    with pytest.raises(TypeError):
        below(1, other=2)
    with pytest.raises(AttributeError):
        base(1).other = 2
