"""What can be run twice: modules whose forward pass, whatever its parts are called, does nothing that stays."""

from __future__ import annotations

import random
import sys
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from amplint.doctor.slices import NoSlice, check_module, guarded  # noqa: E402


class Doubling:
    def __call__(self, x: Any) -> Any:
        return 2 * x


class Mixing:
    def __init__(self) -> None:
        self.order = [0, 1, 2, 3]

    def __call__(self, x: Any) -> Any:
        random.shuffle(self.order)
        return x[self.order]


class Parts(nn.Module):
    def __init__(self, part: Any) -> None:
        super().__init__()
        self.shuffle = part
        self.update = part

    def forward(self, x: Any) -> Any:
        return self.update(self.shuffle(x))


class Noise(nn.Module):
    def forward(self, x: Any) -> Any:
        generator = torch.Generator()
        generator.manual_seed(1)
        other = torch.Generator().manual_seed(2)
        return x + torch.rand(4, generator=generator) + torch.rand(4, generator=other)


class NoiseOfModule(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.generator = torch.Generator()

    def forward(self, x: Any) -> Any:
        generator = self.generator
        generator.manual_seed(1)
        return x + torch.rand(4, generator=generator)


class NoiseOfAll(nn.Module):
    def forward(self, x: Any) -> Any:
        torch.manual_seed(1)
        return x + torch.rand(4)


@pytest.mark.parametrize("module", [Parts(nn.Identity()), Parts(Doubling()), Noise()], ids=["module", "object", "new"])
def test_a_name_alone_says_nothing_of_what_is_called(module: nn.Module) -> None:
    check_module(module)


@pytest.mark.parametrize(
    "module",
    [Parts(Mixing()), Parts(random.shuffle), NoiseOfModule(), NoiseOfAll()],
    ids=["object", "function", "kept", "all"],
)
def test_what_stays_changed_is_not_run_twice(module: nn.Module) -> None:
    with pytest.raises(NoSlice):
        check_module(module)


class Caching(nn.Module):
    """Does under a condition what can't be done twice."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = [1, 2, 3]

    def forward(self, x: Any, cache: Any = None) -> Any:
        if cache is not None:
            x = x + cache.pop()
        try:
            x = 2 * x
        except RuntimeError:
            cache.pop()
        return x


class Forgiving(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Caching()

    def forward(self, x: Any, cache: Any) -> Any:
        try:
            return self.inner(x, cache)
        except Exception:
            return x


def test_a_line_that_is_not_reached_does_not_count() -> None:
    module = Caching()
    with guarded(check_module(module)):
        assert module(torch.ones(2)).tolist() == [2, 2]


def test_a_line_that_is_reached_is_not_run() -> None:
    module, cache = Forgiving(), [1, 2]
    guards = check_module(module)
    before = sys.gettrace()
    why = r"`pop\(\)` on line \d+ of test_slices.py can't be called twice"
    with pytest.raises(NoSlice, match=why), guarded(guards):
        module(torch.ones(2), cache)
    assert cache == [1, 2]
    assert sys.gettrace() is before
