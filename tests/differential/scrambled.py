"""Small training programs whose calls stand in any order, and what becomes of them when their fixes are made.

Nothing is asked of what is found in them. But where all that was found has been fixed, a program has to learn what it
learns with the scaler switched off, and a fix must not put a silent error in the place of an exception.

python -m tests.differential.scrambled --programs 1000 --seed 0

With `--orders`, the calls of one optimizer in every order, in functions that are given all.
"""

from __future__ import annotations

import argparse
import inspect
import re
from collections import Counter
from collections.abc import Callable, Sequence
from enum import Enum
from itertools import permutations
from random import Random
from typing import Any, NamedTuple

import torch

from amplint import Finding, check, fix
from amplint.base.edits import apply
from amplint.config.settings import Settings
from amplint.registry import all_rules

FILENAME = "scrambled.py"
SETTINGS = Settings(frozenset(code for code, rule in all_rules().items() if rule.default), isolated=True)
_SCALER = torch.amp.GradScaler
_RAISED = (AssertionError, RuntimeError)
_HEAD = "import torch\nfrom torch import nn\n\n\n"
_EVENTS = ("zero_grad", "backward", "unscale_", "clip", "step", "update")
_RIGHT = ("zero_grad", "backward", "unscale_", "clip", "step", "update")


class Outcome(Enum):
    """What a program does under torch."""

    RIGHT = "does what it does with the scaler off"
    RAISES = "raises"
    WRONG = "learns something else, silently"


class Attempt(NamedTuple):
    """What some fixes make of a program."""

    which: str
    text: str
    outcome: Outcome
    left: tuple[str, ...]  # the codes of what is found in the new text

    def is_bad(self, before: Outcome) -> bool:
        """Whether nothing is found although it is wrong; of a function by itself, whether a fix has hidden that."""
        if self.left:
            return False
        if "GradScaler" in self.text:
            return self.outcome is not Outcome.RIGHT
        return before is Outcome.RAISES and self.outcome is Outcome.WRONG


class Tried(NamedTuple):
    """A program and all attempts at fixing it."""

    seed: int
    text: str
    outcome: Outcome
    found: tuple[str, ...]
    attempts: tuple[Attempt, ...]

    @property
    def bad(self) -> list[Attempt]:
        return [each for each in self.attempts if each.is_bad(self.outcome)]

    def __str__(self) -> str:
        head = f"--- seed {self.seed}: {', '.join(self.found) or 'nothing found'}; it {self.outcome.value}"
        fixed = (f"\n  {each.which} -> it {each.outcome.value}\n{each.text}" for each in self.bad)
        return f"{head}\n{self.text}{''.join(fixed)}"


def scrambled(seed: int) -> str:
    """The text of a program with one optimizer or two, whose calls stand in any order."""
    choose = Random(f"scrambled/{seed}")
    optimizers = choose.choice(((("opt", "model"),), (("opt", "model"),), (("opt_a", "model_a"), ("opt_b", "model_b"))))
    events = [
        (event, *names)
        for event in _RIGHT
        for names in (optimizers if event not in ("backward", "update") else optimizers[:1])
    ]
    if choose.random() < 0.3:
        events = choose.choices(events, k=choose.randrange(4, 9))
    for _ in range(choose.randrange(4)):
        kind, at = choose.choice(("drop", "double", "move", "move", "swap")), choose.randrange(len(events))
        if kind == "drop" and len(events) > 2:
            del events[at]
        elif kind == "double":
            events.insert(choose.randrange(len(events) + 1), events[at])
        elif kind == "move":
            events.insert(choose.randrange(len(events)), events.pop(at))
        elif at:
            events[at - 1], events[at] = events[at], events[at - 1]
    lines = [_line(*event, [model for _, model in optimizers], choose) for event in events]
    return _HEAD + _whole(lines, optimizers, choose)


def _line(event: str, optimizer: str, model: str, models: list[str], choose: Random) -> str:
    if event == "backward":
        return f"scaler.scale({' + '.join(f'criterion({each}(x), y)' for each in models)}).backward()"
    if event == "clip":
        if choose.choice(range(10)) == 9:
            return f"torch.nn.utils.clip_grad_value_({model}.parameters(), 0.1)"
        return f"torch.nn.utils.clip_grad_norm_({model}.parameters(), 0.1)"
    return {
        "zero_grad": f"{optimizer}.zero_grad()",
        "unscale_": f"scaler.unscale_({optimizer})",
        "step": f"scaler.step({optimizer})",
        "update": "scaler.update()",
    }[event]


def _whole(lines: list[str], optimizers: tuple[tuple[str, str], ...], choose: Random) -> str:
    """The calls in a loop, in a function that is called once for each batch, or by themselves."""
    made = _made(optimizers)
    names = [name for pair in optimizers for name in pair]
    shape = choose.choice(
        (
            "loop",
            "loop",
            "loop",
            "given",
            "given step",
            "method",
            "method step",
            "once",
            "script",
            *["alone", "step alone"] * 2,
        )
    )
    given = ", ".join((*names, "criterion", "scaler"))
    if shape == "once":
        return _function("train", "loader", [*made, "x, y = loader[0]", *lines])
    if shape == "script":
        return "\n".join((*made, "for x, y in loader:", *_indented(lines), ""))
    loop = ["for x, y in loader:", *_indented(lines)]
    if shape == "loop":
        return _function("train", "loader", [*made, *loop])
    if shape == "given":
        fit = _function("fit", f"loader, {given}", loop)
        return f"{fit}\n\n{_function('train', 'loader', [*made, f'fit(loader, {given})'])}"
    if shape == "alone":
        return _function("fit", f"loader, {given}", loop)
    if shape == "step alone":
        return _function("fit", f"x, y, {given}", lines)
    if shape == "given step":
        fit = _function("fit", f"x, y, {given}", lines)
        called = [*made, "for x, y in loader:", f"    fit(x, y, {given})"]
        return f"{fit}\n\n{_function('train', 'loader', called)}"
    stored = [*names, "criterion", "scaler"]

    def owned(text: str) -> str:
        for each in stored:
            text = re.sub(rf"\b{each}\b", f"self.{each}", text)
        return text

    init = _function("__init__", "self", list(map(owned, made)))
    if shape == "method":
        fit = _function("fit", "self, loader", [loop[0], *map(owned, loop[1:])])
        called = "    Trainer().fit(loader)\n"
    else:
        fit = _function("fit", "self, x, y", list(map(owned, lines)))
        called = "    trainer = Trainer()\n    for x, y in loader:\n        trainer.fit(x, y)\n"
    body = "\n".join(_indented([*init.splitlines(), "", *fit.splitlines()]))
    return f"class Trainer:\n{body}\n\n\ndef train(loader):\n{called}"


def _made(optimizers: Sequence[tuple[str, str]]) -> list[str]:
    made = [f"{model} = nn.Linear(2, 2)" for _, model in optimizers]
    made += [f"{name} = torch.optim.SGD({model}.parameters(), lr=0.5)" for name, model in optimizers]
    return [*made, "criterion = nn.MSELoss()", 'scaler = torch.amp.GradScaler("cpu")']


def _function(name: str, given: str, body: list[str]) -> str:
    return "\n".join((f"def {name}({given}):", *_indented(body), ""))


def _indented(lines: list[str]) -> list[str]:
    return [f"    {each}" if each else each for each in lines]


def outcome_of(text: str) -> Outcome:
    """What a program does under torch."""
    try:
        right = _learned(text, off=True)
    except _RAISED:
        return Outcome.RIGHT  # a clip of no gradients, whatever the scaler does
    try:
        learned = _learned(text, off=False)
    except _RAISED:
        return Outcome.RAISES
    pairs = zip(learned, right, strict=True)
    return Outcome.RIGHT if all(torch.allclose(a, b, rtol=1e-4, atol=1e-6) for a, b in pairs) else Outcome.WRONG


def _learned(text: str, *, off: bool) -> list[torch.Tensor]:
    """The parameters that a program ends with, those that gradients are left in with these."""
    made: list[torch.Tensor] = []
    linear, scaler = torch.nn.Linear, torch.amp.GradScaler

    def kept(*args: Any) -> torch.nn.Linear:
        made.extend((model := linear(*args)).parameters())
        return model

    torch.manual_seed(0)
    loader = [(torch.randn(4, 2), torch.randn(4, 2)) for _ in range(3)]
    space: dict[str, Any] = {"loader": loader}
    torch.nn.Linear = kept  # type: ignore[assignment,misc]
    torch.amp.GradScaler = lambda device: scaler(device, enabled=not off)  # type: ignore[assignment,misc]
    try:
        exec(compile(text, FILENAME, "exec"), space)
        if "train" in space:
            space["train"](loader)
        elif "fit" in space:
            _call(space["fit"], loader, text)
    finally:
        torch.nn.Linear, torch.amp.GradScaler = linear, scaler  # type: ignore[misc]
    return [each.detach() for each in made]


def _call(fit: Callable[..., None], loader: list[tuple[torch.Tensor, torch.Tensor]], text: str) -> None:
    """Call a function that is given all, once or for each batch; what one of these lacks at its start, its caller has.

    That is the clearing and the backward: a function with a loop of its own can't leave them to anyone.
    """
    given = inspect.signature(fit).parameters
    optimizers = [(each, each.replace("opt", "model")) for each in given if each.startswith("opt")]
    space: dict[str, Any] = {}
    exec("\n".join((_HEAD, *_made(optimizers))), space)
    made = {name: space[name] for name in given if name in space}
    if "loader" in given:
        fit(loader, **made)
        return
    for x, y in loader:
        if "zero_grad" not in text:
            for optimizer, _ in optimizers:
                made[optimizer].zero_grad()
        if "backward" not in text:
            losses = [made["criterion"](made[model](x), y) for _, model in optimizers]
            made["scaler"].scale(sum(losses[1:], losses[0])).backward()
        fit(x, y, **made)


def orders() -> list[str]:
    """Functions that are given all, with the calls of one optimizer in every order, all of them or without some."""
    choose, optimizer = Random(0), ("opt", "model")
    lines = {event: _line(event, *optimizer, ["model"], choose) for event in _RIGHT}
    lines["clip"] = "torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)"
    given = "model, opt, criterion, scaler"
    found = []
    for without in ((), ("zero_grad",), ("backward",), ("update",), ("zero_grad", "update")):
        for order in permutations([event for event in _RIGHT if event not in without]):
            body = [lines[event] for event in order]
            found.append(_HEAD + _function("fit", f"x, y, {given}", body))
            found.append(_HEAD + _function("fit", f"loader, {given}", ["for x, y in loader:", *_indented(body)]))
    return found


def tried(seed: int) -> Tried:
    """The program of a seed, with each fix made that is offered for it, and all of them."""
    return tried_text(scrambled(seed), seed)


def tried_text(text: str, seed: int = 0) -> Tried:
    """A program, with each fix made that is offered for it, and all of them."""
    findings = check(text, FILENAME, SETTINGS)
    attempts = [
        _attempt(f"the {each.fix.applicability.value} fix of {each.code}", apply(text, [each.fix])[0])
        for each in findings
        if each.fix and each.fix.edits
    ]
    for unsafe in (False, True):
        fixed = fix(text, FILENAME, SETTINGS, unsafe=unsafe)
        if fixed != text:
            attempts.append(_attempt("all fixes" if unsafe else "the safe fixes", fixed))
    return Tried(seed, text, outcome_of(text), _codes(findings), tuple(attempts))


def _attempt(which: str, text: str) -> Attempt:
    return Attempt(which, text, outcome_of(text), _codes(check(text, FILENAME, SETTINGS)))


def _codes(findings: list[Finding]) -> tuple[str, ...]:
    return tuple(each.code for each in findings)


def main() -> None:
    """Print the programs whose fixes are bad, and how many programs are fixed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--shown", type=int, default=10)
    parser.add_argument("--orders", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    counts: Counter[str] = Counter()
    bad = []
    seeds = range(options.seed, options.seed + options.programs)
    for each in map(tried_text, orders()) if options.orders else map(tried, seeds):
        counts["programs"] += 1
        counts[f"it {each.outcome.value}"] += 1
        counts["found"] += bool(each.found)
        counts["wrong and nothing found"] += not each.found and each.outcome is not Outcome.RIGHT
        counts["with a fix"] += any(attempt.which.startswith("the ") for attempt in each.attempts)
        counts["fixed"] += any(not attempt.left for attempt in each.attempts)
        counts["bad"] += bool(each.bad)
        if each.bad:
            bad.append(each)
    for each in sorted(bad, key=lambda each: -each.text.count("\n"))[-options.shown :]:
        print(each)
    print(", ".join(f"{name}: {count}" for name, count in counts.items()))


if __name__ == "__main__":
    main()
