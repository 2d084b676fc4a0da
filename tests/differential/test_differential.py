"""The differential test: what is found in random programs is what torch shows of them.

First the observer is tried by hand on programs whose misuse is known, and on templates that have none. Of all that is
random these are samples; thousands are tried by `python -m tests.differential`, with `--fix` and `.scrambled` too.
"""

from __future__ import annotations

import contextlib
import textwrap
from collections import Counter

import pytest
import torch

import amplint
from tests import some
from tests.differential import scrambled
from tests.differential.codes import TABLE, Observed
from tests.differential.compare import Tried, compare, tried
from tests.differential.draft import FAMILIES
from tests.differential.fixing import fixed
from tests.differential.generate import generate
from tests.differential.ledger import UnsuitableError
from tests.differential.observe import learned, observe
from tests.differential.program import Program, kept
from tests.differential.tree import MUTATIONS

HEAD = """\
import torch
from torch import nn
def train(loader, use_amp=True, extra=True, k=1):
    model = nn.Linear(1, 1)
    criterion = nn.L1Loss()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    scaler = torch.amp.GradScaler("cpu", enabled=use_amp)
    region = torch.autocast("cpu", dtype=torch.bfloat16)
    clip = torch.nn.utils.clip_grad_norm_
    for i, (x, y) in enumerate(loader):
"""
TWO = HEAD.replace(
    "    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)\n",
    "    other = nn.Linear(1, 1)\n"
    "    first = torch.optim.SGD(model.parameters(), lr=1e-6)\n"
    "    second = torch.optim.SGD(other.parameters(), lr=1e-6)\n",
)
PROGRAMS = 100
EVENTS = {
    "scale", "scaled backward", "plain backward", "backward in a region", "step in a region", "unscale_", "step",
    "step of a disabled scaler", "direct step", "update", "clip", "clip by hand", "zero_grad", "exception",
}  # fmt: skip
FLAGS = {"use_amp": (True, False), "extra": (True, False), "k": (1, 2)}


def program(body: str, head: str = HEAD, overflow: bool = False) -> Program:
    """A loop round a body; only the flags that the body mentions take all their values."""
    flags = {name: values for name, values in FLAGS.items() if name in body}
    return Program(head + textwrap.indent(textwrap.dedent(body), " " * 8), flags, overflow=overflow)


def told(made: Program) -> set[frozenset[str]]:
    """What has to be found of a program: for each observation the findings that would do, lines by their marks."""
    marks = {number: line.split("  # ")[1] for number, line in enumerate(made.text.splitlines(), 1) if "  # " in line}
    seen = observe(made).observed
    return {
        frozenset(f"{code[3:]}{marks.get(line, line)}" for code, line in each.allowed())
        for each in seen
        if not each.secondary
    }


# Each with what has to be found: codes and marks, ties separated by slashes.
BY_HAND: dict[str, tuple[str, str]] = {
    "right": ("", "Z F B U C S D"),
    "clip while scaled": ("401c", "Z F B C# U S D"),
    "clip late": ("419c", "Z F B U S C# D"),
    "no scale at all": ("403b/418s", "Z F P# S# D"),
    "step before any scale": ("418s", "Z F S# B U D"),
    "update before any scale": ("418d", "Z D# F B S D"),
    "never cleared": ("411s", "F B S# D"),
    "never cleared, unscaled": ("411u", "F B U# C S D"),
    "unscale_ between two backwards": ("411u", "Z F B U# F B S D"),
    "no update": ("404s", "Z F B S# "),
    "no update behind unscale_ and step": ("404s/404u", "Z F B U# S#"),
    "no step and no update": ("404u/405u/411u", "Z F B U#"),
    "unscale_ twice": ("405v", "Z F B U V# S D"),
    "unscale_ behind the step": ("406v", "Z F B S V# D"),
    "step twice": ("406t", "Z F B S T# D"),
    "unscale_ behind the update": ("406v/410d 406v/411v", "Z F B S D# V# Z F B S D"),
    "unscale_ behind the update, forgotten": ("", "Z F B S D V E"),  # it may be found
    "unscale_ of none, then a clip": ("406u/407u 407s/407u", "Z F B S D Z U# F B C S# D"),
    "cleared before the step": ("407s", "F B Z S# D"),
    "cleared behind unscale_": ("407s", "F B U# Z S# D"),
    "update before the step": ("410d", "Z F B U D# S E"),
    "update too early, and none behind": ("410d 404s/404u/410d", "Z F B U# D# S#"),
    "update twice": ("410e", "Z F B S D E#"),
    "update first": ("410d", "Z F B D# S E"),
    "direct step": ("402o", "Z F B O#"),
    "direct step, then update": ("402o", "Z F B O# D"),
    "direct step of unscaled gradients": ("402o", "Z F B U C O# D"),
    "direct step, then update and unscale_": ("405v/406v/410d 402o", "Z F B U C O# D# V# E"),
    "direct step behind the scaler's": ("402o", "Z F B S O# D"),
    "one of two losses": ("403b", "Z F B F P# S D"),
    "step again behind the update": ("406t/410d", "Z F B S D# T# D"),
    "plain, by a direct step": ("", "Z F P O"),
    "plain, by a direct step, and then the scaler's": ("403b/406t", "Z F B S D Z F P# O T# E"),
    "plain on unscaled ones, an update, the step": ("403b/410d/411u", "Z F B U# F P# D# S E"),
    "unscale_ between two backwards, direct step": ("402o/411u", "Z F B U# F B O# D"),
    "cleared behind unscale_, another backward": ("406u/411u", "Z F B U# Z F B S D"),
    "unscale_ again behind an update": ("405v/410d", "Z F B U D# V# S E"),
    "unscale_ behind everything": ("406u/407u 407s/407u", "F B S# D Z U#"),
    "never cleared, clipped behind the next backward": ("401c/411s/419c", "F B S# D F B C#"),
    "clip behind everything": ("", "F B U S D Z C"),  # it may be found
}
LETTERS = {
    "Z": "optimizer.zero_grad()",
    "F": "with region: loss = criterion(model(x), y)",
    "B": "scaler.scale(loss).backward()",
    "P": "loss.backward()",
    "U": "scaler.unscale_(optimizer)",
    "V": "scaler.unscale_(optimizer)",
    "C": "clip(model.parameters(), 1.0)",
    "S": "scaler.step(optimizer)",
    "T": "scaler.step(optimizer)",
    "O": "optimizer.step()",
    "D": "scaler.update()",
    "E": "scaler.update()",
}
MARKS = dict.fromkeys("BP", "b") | {each: each.lower() for each in "UVCSTODE"}


def expected(text: str) -> set[frozenset[str]]:
    return {frozenset(each.split("/")) for each in text.split()}


@pytest.mark.parametrize("name", BY_HAND)
def test_the_observer_sees_what_is_wrong_with_a_loop(name: str) -> None:
    needed, word = BY_HAND[name]
    lines = [LETTERS[each[0]] + (f"  # {MARKS[each[0]]}" if each.endswith("#") else "") for each in word.split()]
    assert told(program("\n".join(lines))) == expected(needed)
    # The same loop says nothing wrong with the scaler switched off.
    off = program("\n".join([*lines, "pass"])).text.replace("enabled=use_amp", "enabled=False")
    assert told(Program(off)) == set()


SHAPED: dict[str, tuple[str, str]] = {
    "backward and step in a region, on for one value of the flag": (
        "301b 302s",
        """\
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=use_amp):
            loss = criterion(model(x), y)
            scaler.scale(loss).backward()  # b
            scaler.step(optimizer)  # s
        scaler.update()
        """,
    ),
    "backward in an island": (
        "",
        """\
        optimizer.zero_grad()
        with region:
            loss = criterion(model(x), y)
            with torch.autocast("cpu", enabled=False):
                scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        """,
    ),
    "accumulation": (
        "",
        """\
        with region:
            loss = criterion(model(x), y) / k
        scaler.scale(loss).backward()
        if (i + 1) % k == 0:
            scaler.unscale_(optimizer)
            clip(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
        """,
    ),
    "unscale_ on each micro step": (
        "404u/405u/411u",
        """\
        with region:
            loss = criterion(model(x), y) / k
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)  # u
        if (i + 1) % k == 0:
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
        """,
    ),
    "update skipped by a continue": (
        "404u/405u/411u",
        """\
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)  # u
        norm = clip(model.parameters(), 1.0)
        if not torch.isfinite(norm):
            continue
        scaler.step(optimizer)
        scaler.update()
        """,
    ),
    "a direct step where the norm is asked first": (
        "",
        """\
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norm = clip(model.parameters(), 1.0)
        if torch.isfinite(norm):
            optimizer.step()
        scaler.update()
        """,
    ),
    "clipped by hand while scaled": (
        "401c 401d",
        """\
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        scaler.scale(loss).backward()
        if extra:
            for p in model.parameters():
                p.grad.clamp_(-1, 1)  # c
        else:
            total = sum(p.grad.norm() for p in model.parameters())
            for p in model.parameters():
                p.grad.mul_(1.0 / total)  # d
        scaler.step(optimizer)
        scaler.update()
        """,
    ),
    "a constant factor on scaled gradients": (
        "",
        """\
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        scaler.scale(loss).backward()
        for p in model.parameters():
            p.grad.mul_(0.5)
        scaler.step(optimizer)
        scaler.update()
        """,
    ),
    "zeros are no gradients": (
        "407s",
        """\
        loss = criterion(model(x), y)
        scaler.scale(loss).backward()
        optimizer.zero_grad(set_to_none=False)
        scaler.step(optimizer)  # s
        scaler.update()
        """,
    ),
}


@pytest.mark.parametrize("name", SHAPED)
def test_the_observer_sees_what_is_wrong_with_a_shape(name: str) -> None:
    needed, body = SHAPED[name]
    assert told(program(body, overflow="isfinite" in body)) == expected(needed)


SHARED: dict[str, tuple[str, str]] = {
    "one update for both": ("", "step(first) step(second) update()"),
    "an update after each": ("410d", "step(first) update()# step(second) update()"),
    "one is unscaled, both are clipped": ("401c", "unscale_(first) clip# step(first) step(second) update()"),
    "both are unscaled and clipped": ("", "unscale_(first) unscale_(second) clip step(first) step(second) update()"),
    "one is clipped behind its step": ("401c", "step(first) clip# step(second) update()"),
    "the second is unscaled twice": (
        "405u",
        "unscale_(first) unscale_(second) unscale_(second)# step(second) update()",
    ),
}


@pytest.mark.parametrize("name", SHARED)
def test_the_observer_keeps_two_optimizers_apart(name: str) -> None:
    needed, word = SHARED[name]
    lines = ["first.zero_grad()", "second.zero_grad()", "loss = criterion(other(model(x)), y)"]
    lines += ["scaler.scale(loss).backward()"]
    for each in word.split():
        call = (
            "clip([*model.parameters(), *other.parameters()], 1.0)" if "clip" in each else f"scaler.{each.strip('#')}"
        )
        mark = "d" if "update" in each else each[0]
        lines.append(call + (f"  # {mark}" if each.endswith("#") else ""))
    assert told(program("\n".join(lines), TWO)) == expected(needed)


def test_an_update_owed_when_the_run_ends() -> None:
    body = """\
    optimizer.zero_grad()
    scaler.scale(criterion(model(x), y)).backward()
    if i == 4:
        scaler.step(optimizer)  # s
    """
    assert told(program(body)) == expected("404s")


def test_what_no_code_is_about_is_refused() -> None:
    for body in ("loss = criterion(modell(x), y)", "scaler.scale(scaler.scale(criterion(model(x), y))).backward()"):
        with pytest.raises(UnsuitableError):
            observe(program(body))


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_templates_are_right(family: str) -> None:
    for seed in range(6):
        made = generate(seed, family, mutations=0)
        assert not observe(made).observed, made.numbered()


def test_every_kind_of_observation_is_tried_by_hand() -> None:
    made = [program("\n".join(LETTERS[each[0]] for each in word.split())) for _, word in BY_HAND.values()]
    made += [program(body, overflow=True) for _, body in SHAPED.values()]
    kinds = {each.kind for one in made for each in observe(one).observed}
    assert kinds == set(TABLE)


# --- programs on which the verdicts differed once ---------------------------------------------------------------------


@pytest.mark.parametrize("program", some(kept(), 14), ids=lambda program: program.family)
def test_programs_that_were_kept(program: Program) -> None:
    verdict = compare(program)
    assert verdict.agrees, str(verdict)


# --- random programs --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def random_programs() -> list[Tried]:
    torch.set_num_threads(1)
    return [tried((seed, "")) for seed in range(PROGRAMS)]


def test_random_programs_cover_what_they_should(random_programs: list[Tried]) -> None:
    verdicts = [each.verdict for each in random_programs if each.verdict is not None]
    assert len(verdicts) > 0.97 * PROGRAMS
    events = sum((each.seen.events for each in verdicts), Counter())
    assert {name for name, number in events.items() if number > 25} == EVENTS
    families = Counter(each.program.family for each in verdicts)
    assert set(families) == set(FAMILIES)
    assert min(families.values()) > 1
    kinds = Counter(each.kind for verdict in verdicts for each in verdict.seen.observed if not each.secondary)
    assert len(kinds) > 15
    shapes = {shape for verdict in verdicts for shape in verdict.program.shapes}
    assert {"depth: 2", "depth: 5", "functions: 1", "functions: 4", "flags: 0", "flags: 3", "calls deep: 2"} <= shapes
    assert {f"mutation: {name}" for name in MUTATIONS} <= shapes
    others = Counter(shape for seed in range(1000, 1750) for shape in generate(seed).shapes)
    assert {shape for shape, number in others.items() if number > 45} <= shapes
    right = sum(not verdict.seen.observed for verdict in verdicts)
    assert 0.4 * PROGRAMS < right < 0.7 * PROGRAMS


def test_what_is_found_is_what_is_observed(random_programs: list[Tried]) -> None:
    different = [str(each.verdict) for each in random_programs if each.verdict is not None and not each.verdict.agrees]
    assert not different, "\n\n".join(different[:5])


def test_a_run_of_which_nothing_is_observed_learns_what_it_learns_without_a_scaler(
    random_programs: list[Tried],
) -> None:
    """The observer misses nothing that changes a weight or raises."""
    clean = 0
    for verdict in (each.verdict for each in random_programs[:50]):
        if verdict is None:
            continue
        told = {label for each, labels in verdict.seen.observed.items() if not silent(each) for label in labels}
        for flags, overflow in verdict.program.runs():
            if not overflow and ", ".join(f"{name}={value}" for name, value in flags.items()) not in told:
                with_scaler, without = (learned(verdict.program, flags, off) for off in (False, True))
                assert with_scaler is not None, str(verdict)
                assert without is not None, str(verdict)
                assert all(map(torch.equal, with_scaler, without)), (str(verdict), flags)
                clean += 1
    assert clean > 50


def silent(each: Observed) -> bool:
    """Whether an observation is of what changes no number here."""
    return each.secondary or each.kind.endswith("in a region")


def test_fixes_leave_nothing_new() -> None:
    changed = 0
    for seed in range(30):
        made = generate(seed)
        with contextlib.suppress(UnsuitableError):
            result = fixed(made)
            changed += result is not None
            assert result is None or not result.new, str(result)
    assert changed > 3


def test_fixed_programs_learn_what_they_learn_without_a_scaler() -> None:
    every = list(map(scrambled.tried, range(100, 115)))
    bad = [str(each) for each in every if each.bad]
    assert not bad, "\n".join(bad)
    fixed = [each for each in every if any(not attempt.left for attempt in each.attempts)]
    assert len(fixed) > 2


def test_no_order_of_calls_is_fixed_into_a_silent_error() -> None:
    """A sample; all of them: python -m tests.differential.scrambled --orders."""
    programs = scrambled.orders()
    calls = ("clip_grad_norm_(", "unscale_(", "update(", "step(", "zero_grad(")
    known = next(each for each in programs if "backward" not in each and _order(each, calls) == calls)
    every = list(map(scrambled.tried_text, [known, *programs[::95]]))
    bad = [str(each) for each in every if each.bad]
    assert not bad, "\n".join(bad)
    assert sum(bool(each.attempts) for each in every) > 5


def _order(text: str, calls: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted(calls, key=lambda call: text.index(call) if call in text else -1))


NEVER_CLEARED = """\
import torch


def fit(loader, model, opt, criterion, scaler):
    for x, y in loader:
        scaler.scale(criterion(model(x), y)).backward()
        scaler.unscale_(opt)
        scaler.update()
        scaler.step(opt)
"""


def test_a_fix_does_not_let_a_loop_run_that_never_clears() -> None:
    (found,) = amplint.check(NEVER_CLEARED, scrambled.FILENAME, scrambled.SETTINGS)
    assert found.fix is None
    assert str(found.withheld).startswith("amplint sees no `zero_grad()`")
    cleared = NEVER_CLEARED.replace("loader:\n", "loader:\n        opt.zero_grad()\n")
    (found,) = amplint.check(cleared, scrambled.FILENAME, scrambled.SETTINGS)
    assert found.fix is not None


WHOSE = """\
import torch


def fit(x, y, opt_a, model_a, opt_b, model_b, criterion, scaler):
    opt_a.zero_grad()
    opt_b.zero_grad()
    scaler.scale(criterion(model_a(x), y) + criterion(model_b(x), y)).backward()
    scaler.unscale_(opt_a)
    torch.nn.utils.clip_grad_norm_(model_a.parameters(), 0.1)
    torch.nn.utils.clip_grad_norm_(model_b.parameters(), 0.1)
    scaler.step(opt_a)
    scaler.step(opt_b)
    scaler.step(opt_b)
    scaler.update()
"""


def test_no_fix_lets_a_clip_run_whose_gradients_may_be_scaled() -> None:
    """The second step of `opt_b` raises; without it the clip of `model_b` is silently wrong."""
    (finding,) = amplint.check(WHOSE, scrambled.FILENAME, scrambled.SETTINGS)
    assert finding.code == "AMP406"
    assert finding.withheld is not None
    assert finding.withheld.startswith("amplint can't tell which optimizer's gradients are clipped")
    assert amplint.fix(WHOSE, scrambled.FILENAME, scrambled.SETTINGS, unsafe=True) == WHOSE


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("unscale_(opt_a)", "unscale_(opt_a)\n    scaler.unscale_(opt_b)"),
        ("    torch.nn.utils.clip_grad_norm_(model_b.parameters(), 0.1)\n", ""),
    ],
    ids=["both are unscaled", "one is clipped"],
)
def test_the_fix_is_made_where_no_more_models_are_clipped_than_optimizers_unscaled(old: str, new: str) -> None:
    right = WHOSE.replace(old, new)
    fixed = amplint.fix(right, scrambled.FILENAME, scrambled.SETTINGS, unsafe=True)
    assert fixed == right.replace("    scaler.step(opt_b)\n", "", 1)


AGAIN = """\
import torch


def fit(loader, opt_a, model_a, opt_b, model_b, criterion, scaler):
    for x, y in loader:
        opt_a.zero_grad()
        opt_b.zero_grad()
        scaler.scale(criterion(model_a(x), y) + criterion(model_b(x), y)).backward()
        scaler.update()
        scaler.unscale_(opt_a)
        scaler.scale(criterion(model_a(x), y) + criterion(model_b(x), y)).backward()
        scaler.step(opt_a)
        scaler.step(opt_b)
"""


def test_no_fix_lets_a_step_run_whose_gradients_may_be_scaled_in_part() -> None:
    """The second `unscale_` raises; without it the second loss is added to unscaled gradients."""
    (finding,) = amplint.check(AGAIN, scrambled.FILENAME, scrambled.SETTINGS)
    assert finding.code == "AMP410"
    assert finding.withheld is not None
    assert finding.withheld.startswith("amplint can't tell whose gradients the backward pass after")
    assert amplint.fix(AGAIN, scrambled.FILENAME, scrambled.SETTINGS, unsafe=True) == AGAIN
    once = "\n".join(AGAIN.splitlines()[:10] + AGAIN.splitlines()[11:]) + "\n"
    assert amplint.fix(once, scrambled.FILENAME, scrambled.SETTINGS, unsafe=True) != once


@pytest.mark.parametrize("order", ["update step", "step unscale update"])
def test_no_fix_makes_an_exception_a_silent_error(order: str) -> None:
    lines = {"step": "scaler.step(opt)", "update": "scaler.update()", "unscale": "scaler.unscale_(opt)"}
    clip = "torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)"
    first = [lines["unscale"], clip] if order.startswith("update") else [clip]
    body = [
        "opt.zero_grad()",
        "scaler.scale(criterion(model(x), y)).backward()",
        *first,
        *(lines[each] for each in order.split()),
    ]
    text = "import torch\n\n\ndef fit(x, y, opt, model, criterion, scaler):\n"
    text += "".join(f"    {each}\n" for each in body)
    after = amplint.fix(text, scrambled.FILENAME, scrambled.SETTINGS, unsafe=True)
    if scrambled.outcome_of(after) is scrambled.Outcome.WRONG:
        assert amplint.check(after, scrambled.FILENAME, scrambled.SETTINGS)
