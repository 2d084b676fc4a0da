"""Where the graph between parameters and a loss is cut: a line whose result needs no gradient though its input does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

import torch
from torch.overrides import TorchFunctionMode

from amplint.doctor.calls import plain
from amplint.doctor.capture import tensors_in
from amplint.doctor.findings import Place
from amplint.doctor.places import user_place
from amplint.verify.bench.patching import wrap

_MOST_CUTS = 8  # that are tried


class Cut(NamedTuple):
    """A line that cuts the graph.

    Attributes:
        place: The line: of the call, or where recording was switched off.
        what: What cuts it, such as "detach".
    """

    place: Place | None
    what: str


class _Cuts(TorchFunctionMode):
    """Notes calls whose result needs no gradient though an argument does. One of them is made as if it did not cut."""

    def __init__(self, healed: Cut | None = None) -> None:
        super().__init__()
        self._healed = healed
        self.off: Place | None = None  # where recording was switched off last
        self.cuts: dict[Cut, None] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call what is called."""
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if not isinstance(result, torch.Tensor) or result.requires_grad or not result.is_floating_point():
            return result
        given = next((each for each in tensors_in((args, kwargs)) if each.requires_grad), None)
        if given is None:
            return result
        is_on = torch.is_grad_enabled()
        name = getattr(getattr(func, "__self__", None), "__name__", "") or getattr(func, "__name__", "")
        cut = Cut(user_place(), plain(name)) if is_on else Cut(self.off or user_place(), "no_grad")
        self.cuts[cut] = None
        if cut != self._healed:
            return result
        if is_on:
            return given if given.shape == result.shape else result
        with torch.enable_grad():
            return func(*args, **kwargs)


def find_cut(computation: Callable[[], Sequence[torch.Tensor]], parameters: Sequence[torch.Tensor]) -> Cut | None:
    """The line that cuts the graph between parameters and what is computed, None where no single one does.

    Each line that may is tried: without its cut the parameters have to get a gradient.

    Args:
        computation: Computes the loss again.
        parameters: Those that get no gradient.
    """
    for cut in list(_run(computation, None)[0])[:_MOST_CUTS]:
        _, losses = _run(computation, cut)
        losses = [loss for loss in losses if loss.requires_grad and loss.numel() == 1]
        if losses:
            total = torch.stack([loss.float().sum() for loss in losses]).sum()
            found = torch.autograd.grad(total, list(parameters), allow_unused=True, retain_graph=True)
            if any(each is not None for each in found):
                return cut
    return None


def _run(
    computation: Callable[[], Sequence[torch.Tensor]], healed: Cut | None
) -> tuple[dict[Cut, None], Sequence[torch.Tensor]]:
    """The cuts of a computation, and its results, with one cut healed."""
    cuts = _Cuts(healed)

    def enter(real: Any, self: Any) -> Any:
        result = real(self)
        cuts.off = user_place()
        return result

    with ExitStack() as undo:
        wrap(undo, torch.no_grad, "__enter__", enter)
        undo.enter_context(torch._C._EnableTorchFunction())  # a listener runs with it off
        undo.enter_context(cuts)
        return cuts.cuts, computation()
