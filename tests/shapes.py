"""Programs of any length, with a clip of scaled gradients at their end: to be found, and to be timed by."""

from __future__ import annotations

from collections.abc import Callable

_HEAD = """\
import torch


def train(loader, model, optimizer, flags):
    scaler = torch.amp.GradScaler("cuda")
    for x in loader:
        optimizer.zero_grad()
        loss = model(x)
"""
_CLIP = "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"
_TAIL = f"""\
        scaler.scale(loss).backward()
        {_CLIP}
        scaler.step(optimizer)
        scaler.update()
"""


def lines(count: int) -> str:
    """One statement after the other."""
    return _HEAD + "".join(f"        y{i} = model.part(x, {i})\n" for i in range(count)) + _TAIL


def branches(count: int) -> str:
    """One condition after the other."""
    return (
        _HEAD
        + "".join(f"        if flags.f{i}:\n            loss = loss + model.extra(x)\n" for i in range(count))
        + _TAIL
    )


def calls(depth: int) -> str:
    """One function in the other; the innermost clips and steps."""
    names = "model, optimizer, scaler"
    text = _HEAD + f"        scaler.scale(loss).backward()\n        step{depth}({names})\n"
    for i in range(depth, 1, -1):
        text += f"\n\ndef step{i}({names}):\n    step{i - 1}({names})\n"
    return text + f"\n\ndef step1({names}):\n    {_CLIP}\n    scaler.step(optimizer)\n    scaler.update()\n"


def functions(count: int) -> str:
    """One function after the other; the last one steps."""
    head, train = _HEAD.split("\n\n\n")
    between = "".join(
        f"\n\ndef helper{i}(model, x):\n    with torch.autocast('cuda'):\n        return model.part(x, {i})\n"
        for i in range(count)
    )
    return f"{head}\n{between}\n\n{train}{_TAIL}"


def scalers(count: int) -> str:
    """One function after the other that trains with a scaler of its own; the last one steps with scaled gradients."""
    head, train = _HEAD.split("\n\n\n")
    right = _TAIL.replace(_CLIP, f"scaler.unscale_(optimizer)\n        {_CLIP}")
    every = [right] * (count - 1) + [_TAIL]
    return head + "".join(f"\n\n\n{train.replace('train', f'train{i}')}{tail}" for i, tail in enumerate(every))


def files(count: int) -> dict[str, str]:
    """Files that train, each with a helper that all take from one more."""
    helper = f"import torch\n\n\ndef clip(model):\n    {_CLIP}\n"
    train = f"from helpers import clip\n{_HEAD}{_TAIL.replace(_CLIP, 'clip(model)')}"
    return {"helpers.py": helper, **{f"train{i}.py": train for i in range(count)}}


SHAPES: dict[str, tuple[Callable[[int], str], int]] = {
    "lines": (lines, 50),
    "branches": (branches, 5),
    "calls": (calls, 2),
    "functions": (functions, 5),
    "functions with a scaler": (scalers, 20),
}
PROJECTS: dict[str, tuple[Callable[[int], dict[str, str]], int]] = {"files": (files, 4)}
