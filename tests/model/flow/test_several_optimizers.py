"""Training steps with two optimizers, put together from parts: the right ones are silent, the wrong ones found."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from amplint import check, fix
from amplint.base.findings import Finding, Severity
from tests.covering import covering

UPDATE = ["scaler.update()"]
CLEAR = {each: [f"optimizer_{each}.zero_grad()"] for each in "ab"}
STEP = {each: [f"scaler.step(optimizer_{each})"] for each in "ab"}
PARTS = "model_a, model_b, optimizer_a, optimizer_b, criterion, scaler"


class Form(NamedTuple):
    """Where the objects come from."""

    name: str
    parameters: str  # of the function
    made: list[str]  # at its head
    before: list[str]  # at the head of the file


FORMS = [
    Form("parameters", f"{PARTS}, loader", [], []),
    Form(
        "made in the function",
        "loader",
        [
            "model_a = nn.Linear(4, 4)",
            "model_b = nn.Linear(4, 4)",
            "optimizer_a = torch.optim.SGD(model_a.parameters(), lr=0.1)",
            "optimizer_b = torch.optim.SGD(model_b.parameters(), lr=0.1)",
            "criterion = nn.MSELoss()",
            'scaler = torch.amp.GradScaler("cuda")',
        ],
        [],
    ),
    Form(
        "built elsewhere",
        "model_a, model_b, loader",
        [
            "optimizer_a = build_optimizer(model_a)",
            "optimizer_b = build_optimizer(model_b)",
            "criterion = nn.MSELoss()",
            'scaler = torch.amp.GradScaler("cuda")',
        ],
        ["from building import build_optimizer"],
    ),
    Form(
        "attributes of another object",
        "trainer, loader",
        [
            "model_a, model_b = trainer.models",
            "optimizer_a = trainer.optimizer_a",
            "optimizer_b = trainer.optimizer_b",
            "criterion, scaler = trainer.criterion, trainer.scaler",
        ],
        [],
    ),
]


def forward(loss: str, outputs: str) -> list[str]:
    """The lines that compute a loss."""
    return ['with torch.autocast("cuda"):', f"    {loss} = criterion({outputs}, y)"]


def shared(clears: str, each_updates: bool) -> list[str]:
    """One loss, of both models."""
    lines = [*CLEAR["a"], *CLEAR["b"]] if clears == "before" else []
    lines += [*forward("loss", "model_b(model_a(x))"), "scaler.scale(loss).backward()"]
    return [*lines, *steps(clears, each_updates)]


def two_losses(clears: str, each_updates: bool) -> list[str]:
    """A loss of each model, and both backwards before both steps."""
    lines = [*CLEAR["a"], *CLEAR["b"]] if clears == "before" else []
    for each in "ab":
        lines += forward(f"loss_{each}", f"model_{each}(x)")
    lines += [f"scaler.scale(loss_{each}).backward()" for each in "ab"]
    return [*lines, *steps(clears, each_updates)]


def steps(clears: str, each_updates: bool) -> list[str]:
    """Both steps, with their clears and updates."""
    lines = []
    for each in "ab":
        lines += STEP[each]
        lines += CLEAR[each] if clears == "after" else []
        lines += UPDATE if each_updates else []
    return lines if each_updates else [*lines, *UPDATE]


def one_by_one(clears: str, each_updates: bool) -> list[str]:
    """Backward and step of one, then of the other."""
    lines = []
    for each in "ab":
        lines += CLEAR[each] if clears == "before" else []
        lines += [*forward(f"loss_{each}", f"model_{each}(x)"), f"scaler.scale(loss_{each}).backward()", *STEP[each]]
        lines += CLEAR[each] if clears == "after" else []
        lines += UPDATE if each_updates else []
    return lines if each_updates else [*lines, *UPDATE]


def adversarial(clears: str, each_updates: bool) -> list[str]:
    """A discriminator's step, then that of a generator, whose backward reaches the discriminator too."""
    lines = CLEAR["b"] if clears == "before" else []
    lines = [*lines, *forward("loss_b", "model_b(model_a(x).detach())"), "scaler.scale(loss_b).backward()", *STEP["b"]]
    lines += UPDATE if each_updates else []
    lines += CLEAR["a"] if clears == "before" else []
    lines += [*forward("loss_a", "model_b(model_a(x))"), "scaler.scale(loss_a).backward()", *STEP["a"], *UPDATE]
    return [*lines, *CLEAR["a"], *CLEAR["b"]] if clears == "after" else lines


def indented(lines: list[str], by: int) -> list[str]:
    """Lines inside of something."""
    return [" " * by + line for line in lines]


def written(form: Form, body: list[str], in_loop: bool) -> str:
    """A program whose training step is `body`, in the loop or in a function that the loop calls."""
    head = ["import torch", "from torch import nn", *form.before, "", ""]
    if in_loop:
        loop = ["for x, y in loader:", *indented(body, 4)]
        return "\n".join([*head, f"def train({form.parameters}):", *indented([*form.made, *loop], 4), ""])
    step = [f"def step({PARTS}, x, y):", *indented(body, 4), "", ""]
    loop = ["for x, y in loader:", f"    step({PARTS}, x, y)"]
    return "\n".join([*head, *step, f"def train({form.parameters}):", *indented([*form.made, *loop], 4), ""])


KINDS = (shared, two_losses, one_by_one, adversarial)
RIGHT_WITH_AN_UPDATE_EACH = (one_by_one, adversarial)


def programs(right: bool) -> list[object]:
    """The programs that are right, or those that are wrong."""
    found: list[object] = []
    for form, kind, clears, each_updates, in_loop in covering(
        FORMS, KINDS, ("after", "before"), (True, False), (True, False), together=3
    ):
        if (not each_updates or kind in RIGHT_WITH_AN_UPDATE_EACH) is right:
            name = f"{kind.__name__}, {form.name}, clears {clears}, "
            name += f"{'an update each' if each_updates else 'one update'}, {'loop' if in_loop else 'function'}"
            found.append(pytest.param(written(form, kind(clears, each_updates), in_loop), id=name))
    return found


@pytest.mark.parametrize("text", programs(right=True))
def test_right_programs_are_silent(text: str) -> None:
    assert [(each.code, each.location.row) for each in check(text)] == []


@pytest.mark.parametrize("text", programs(right=False))
def test_an_update_between_the_steps_on_gradients_that_were_scaled_before_is_found(text: str) -> None:
    first = text.splitlines().index(next(line for line in text.splitlines() if line.strip() == UPDATE[0])) + 1
    assert [(each.code, each.location.row) for each in check(text)] == [("AMP410", first)]


OVER = ["[optimizer_a, optimizer_b]", "(optimizer_a, optimizer_b)", "reversed([optimizer_b, optimizer_a])"]


@pytest.mark.parametrize(("form", "over", "unscales", "behind"), covering(FORMS, OVER, (True, False), ([], UPDATE)))
def test_an_update_in_a_loop_over_optimizers_is_found(form: Form, over: str, unscales: bool, behind: list[str]) -> None:
    rounds = [*(["scaler.unscale_(each)"] if unscales else []), "scaler.step(each)", *UPDATE]
    lines = [*CLEAR["a"], *CLEAR["b"], *forward("loss", "model_b(model_a(x))"), "scaler.scale(loss).backward()"]
    text = written(form, [*lines, f"for each in {over}:", *indented(rounds, 4), *behind], in_loop=True)
    first = next(row for row, line in enumerate(text.splitlines(), 1) if line.strip() == UPDATE[0])
    assert [(each.code, each.location.row) for each in check(text)] == [("AMP410", first)]
    once = [*lines, f"for each in {over}:", *indented(rounds[:-1], 4), *UPDATE]
    assert check(written(form, once, in_loop=True)) == []


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_gradients_that_are_cleared_before_their_step_are_found(form: Form) -> None:
    lines = ["optimizer_a.zero_grad()", *forward("loss", "model_b(model_a(x))"), "scaler.scale(loss).backward()"]
    lines += ["optimizer_b.zero_grad()", *STEP["a"], *STEP["b"], *UPDATE]
    text = written(form, lines, in_loop=True)
    assert [each.code for each in check(text)] == ["AMP407"]


@pytest.mark.parametrize("again", [[], UPDATE], ids=["one update", "two updates"])
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_an_update_between_unscale_and_step_is_found(form: Form, again: list[str]) -> None:
    lines = [*forward("loss", "model_b(model_a(x))"), "scaler.scale(loss).backward()"]
    lines += [f"scaler.unscale_(optimizer_{each})" for each in "ab"]
    lines += ["nn.utils.clip_grad_norm_(model_a.parameters(), 1.0)", *UPDATE, *STEP["a"], *STEP["b"], *again]
    lines += [*CLEAR["a"], *CLEAR["b"]]
    found = check(written(form, lines, in_loop=True))
    assert [each.code for each in found] == ["AMP410"]
    assert "unscales the gradients a second time" in found[0].message


@pytest.mark.parametrize("again", [[], UPDATE], ids=["one update", "two updates"])
def test_an_update_between_unscale_and_step_is_found_wherever_the_backward_is(again: list[str]) -> None:
    lines = ["run_backward(model_a, x, y, scaler)", "scaler.unscale_(optimizer_a)", *UPDATE, *STEP["a"], *again]
    text = written(FORMS[0], [*lines, *CLEAR["a"]], in_loop=True)
    assert [each.code for each in check(f"from elsewhere import run_backward\n{text}")] == ["AMP410"]


def test_an_update_for_a_step_that_is_skipped_is_right() -> None:
    lines = [
        "run_backward(model_a, x, y)",
        "scaler.unscale_(optimizer_a)",
        "if is_bad(model_a):",
        "    scaler.update()",
    ]
    lines += ["    continue", *STEP["a"], *UPDATE, *CLEAR["a"]]
    text = written(FORMS[0], lines, in_loop=True)
    assert check(f"from elsewhere import is_bad, run_backward\n{text}") == []


def given(scalers: str, *lines: str) -> str:
    """A function whose caller runs the backwards."""
    return f"def apply(model, optimizer_a, optimizer_b, {scalers}):\n" + "".join(f"    {line}\n" for line in lines)


@pytest.mark.parametrize("unscales", [["scaler.unscale_(optimizer_a)"], []], ids=["unscales", "steps"])
def test_an_update_before_all_else_that_a_given_optimizer_is_for_is_found(unscales: list[str]) -> None:
    early = given("scaler", *UPDATE, *unscales, *STEP["a"])
    (finding,) = check(early)
    assert (finding.code, finding.location.row) == ("AMP410", 2)
    assert fix(early, unsafe=True) == given("scaler", *unscales, *STEP["a"], *UPDATE)


def test_an_update_between_two_given_optimizers_is_found() -> None:
    between = given("scaler", *STEP["a"], *UPDATE, *STEP["b"], *UPDATE)
    assert [(each.code, each.location.row) for each in check(between)] == [("AMP410", 3)]
    assert fix(between) == given("scaler", *STEP["a"], *STEP["b"], *UPDATE)


@pytest.mark.parametrize(
    "lines",
    [
        ["other.step(optimizer_a)", "other.update()", *STEP["b"], *UPDATE],  # each has a scaler
        ["other.update()", *STEP["a"], *UPDATE],
        [*UPDATE, "other.run(model)", *STEP["a"], *UPDATE],  # which may run a backward
    ],
)
def test_an_update_of_what_else_was_given_is_right(lines: list[str]) -> None:
    assert check(given("scaler, other", *lines)) == []


def test_a_clip_of_scaled_gradients_hides_no_update_that_comes_too_early() -> None:
    lines = [*CLEAR["a"], *forward("loss", "model_a(x)"), "scaler.scale(loss).backward()"]
    lines += ["nn.utils.clip_grad_norm_(model_a.parameters(), 1.0)", "scaler.unscale_(optimizer_a)", *UPDATE]
    text = written(FORMS[0], [*lines, *STEP["a"]], in_loop=True)
    assert [each.code for each in check(text)] == ["AMP401", "AMP410"]


TABLE = """\
import torch
from torch import nn


def step_on(model, optimizer, targets, rows, use_amp=False, scaler=None):
    optimizer.zero_grad()
    with torch.autocast("cuda", enabled=use_amp):
        loss = (model(rows) - targets).square().mean()
{backward}
    return loss.item()


def train(args, loader):
    model = nn.Linear(8, 1).cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    table = nn.Parameter(torch.randn(100, 8, device="cuda"))
    table_optimizer = torch.optim.Adam([table], lr=1e-3)
    scaler = {scaler}
    for epoch in range(args.epochs):
        for targets, rows in loader:
            table_optimizer.zero_grad()
            step_on(model, optimizer, targets, table[rows], use_amp=args.amp, scaler=scaler)
            {end}
"""
ARMS = """\
    if use_amp and scaler is not None:
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    else:
        loss.backward()
        optimizer.step()"""
LEAVES = """\
    if {without}:
        loss.backward()
        optimizer.step()
        return loss.item()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()"""
OPTIONAL, SWITCHED = (
    'torch.amp.GradScaler("cuda") if args.amp else None',
    'torch.amp.GradScaler("cuda", enabled=args.amp)',
)
BACKWARDS = [
    (ARMS, OPTIONAL),
    (ARMS, SWITCHED),
    (LEAVES.format(without="scaler is None"), OPTIONAL),
    (LEAVES.format(without="not use_amp"), SWITCHED),
]


@pytest.mark.parametrize(("backward", "scaler"), BACKWARDS)
@pytest.mark.parametrize("end", ["table_optimizer.step()", "if epoch >= 3:\n                table_optimizer.step()"])
def test_a_direct_step_behind_a_helper_that_scales_only_with_amp_is_found(backward: str, scaler: str, end: str) -> None:
    (found,) = check(TABLE.format(backward=backward, scaler=scaler, end=end))
    assert found.code == "AMP402"
    assert "amp`" in found.message  # where the flag is on


@pytest.mark.parametrize(("backward", "scaler"), BACKWARDS)
@pytest.mark.parametrize(
    "end",
    [
        "table[rows].square().mean().backward()\n            table_optimizer.step()",
        "table_optimizer.zero_grad()\n            table[rows].square().mean().backward()\n"
        "            table_optimizer.step()",
        "if not args.amp:\n                table_optimizer.step()",
        "if args.amp:\n                scaler.step(table_optimizer)\n            else:\n"
        "                table_optimizer.step()",
        "table.grad.div_(scaler.get_scale() if scaler is not None else 1.0)\n            table_optimizer.step()",
    ],
)
def test_a_direct_step_on_gradients_that_no_scale_is_on_is_right(backward: str, scaler: str, end: str) -> None:
    text = TABLE.format(backward=backward, scaler=scaler, end=end)
    assert "AMP402" not in {each.code for each in check(text)}


SCHEDULED = """\
import torch


def schedule(optimizer, lr):
    for group in optimizer.param_groups:
        group["lr"] = lr
    return RETURNED


def train(model, optimizer, loader, criterion):
    scaler = torch.amp.GradScaler("cuda")
    for x, y in loader:
        REBOUND
        with torch.autocast("cuda", dtype=torch.float16):
            loss = criterion(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()


def main(loader):
    model = torch.nn.Linear(2, 2).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    train(model, optimizer, loader, torch.nn.MSELoss())
"""


@pytest.mark.parametrize(
    ("returned", "rebound"),
    [
        ("optimizer, lr", "optimizer, lr = schedule(optimizer, 0.1)"),
        ("[optimizer, lr]", "[optimizer, lr] = schedule(optimizer, 0.1)"),
        ("lr, optimizer", "lr, optimizer = schedule(optimizer, 0.1)"),
        (
            "optimizer, lr",
            "scheduled_optimizer, lr = schedule(optimizer, 0.1)\n        optimizer = scheduled_optimizer",
        ),
        ("optimizer", "optimizer = schedule(optimizer, 0.1)"),
        ("optimizer", "optimizer, lr = unknown(optimizer)"),
        ("optimizer", "optimizer, lr = optimizer, 0.1"),
    ],
)
def test_an_optimizer_that_is_given_back_is_the_same(returned: str, rebound: str) -> None:
    text = SCHEDULED.replace("RETURNED", returned).replace("REBOUND", rebound)
    assert [each.code for each in check(text)] == []
    unscale = "        scaler.unscale_(optimizer)\n"
    assert [each.code for each in check(text.replace(unscale, ""))] == ["AMP401"]


FOLDS = """\
import torch
from torch import nn


def plain(model):
    optimizer = torch.optim.AdamW(model.parameters())
    return {returned}


def grouped(model):
    optimizer = torch.optim.SGD([{{"params": model.parameters()}}])
    return {returned}


def train(model, loader, optimizer, scaler, every):
    for i, (x, y) in enumerate(loader):
        with torch.autocast("cuda"):
            loss = nn.functional.mse_loss(model(x), y)
        scaler.scale(loss).backward()
        if (i + 1) % every == 0:
{lines}


def fold(cfg, loader):
    model = nn.Linear(4, 4).cuda()
    if cfg.grouped:
        {bound} = {maker}(model)
    else:
        {bound} = plain(model)
    scaler = torch.amp.GradScaler("cuda")
    for _ in range(cfg.epochs):
        train(model, loader, optimizer, scaler, cfg.every)


def main(cfg, loader):
    for _ in range(4):
        fold(cfg, loader)
"""
RIGHT = ["scaler.unscale_(optimizer)", "scaler.step(optimizer)", "scaler.update()", "optimizer.zero_grad()"]
WRONG = ["scaler.update()", "scaler.unscale_(optimizer)", "scaler.step(optimizer)", "optimizer.zero_grad()"]
PAIR = {"returned": "optimizer, 1", "bound": "optimizer, scheduler"}
ALONE = {"returned": "optimizer", "bound": "optimizer"}


@pytest.mark.parametrize("bound", [PAIR, ALONE], ids=["pair", "alone"])
@pytest.mark.parametrize("maker", ["grouped", "plain", "timm.build"])
def test_an_optimizer_made_anew_has_no_gradients_of_the_one_before(bound: dict[str, str], maker: str) -> None:
    right, wrong = (
        FOLDS.format(**bound, maker=maker, lines="\n".join(f"            {each}" for each in lines))
        for lines in (RIGHT, WRONG)
    )
    assert check(right) == []
    assert "AMP410" in {each.code for each in check(wrong)}


APART = """\
import torch


def train(gen, critic, loader, PERIOD):
    opt_g = torch.optim.Adam(gen.parameters())
    opt_c = torch.optim.Adam(critic.parameters())
    scaler = torch.amp.GradScaler("cuda")
    for step, (x, y) in enumerate(loader):
        with torch.autocast("cuda", dtype=torch.float16):
            made = gen(x)
            loss_c = critic(made.detach()).mean() - critic(y).mean()
        opt_c.zero_grad()
        scaler.scale(loss_c).backward()
        scaler.step(opt_c)
        # FIRST
        with torch.autocast("cuda", dtype=torch.float16):
            loss_g = -critic(made).mean() / every
        scaler.scale(loss_g).backward()
        if (step + 1) % every == 0:
            # BEFORE
            scaler.step(opt_g)
            # AT
            opt_g.zero_grad()
        # LAST
"""
OWN = "give the optimizer `opt_g` its own scaler, updated after each step of that optimizer"


def apart(*updates: str, period: str = "every=1") -> list[Finding]:
    text = APART.replace("PERIOD", period)
    for mark in updates:
        text = text.replace(f"# {mark}\n", "scaler.update()\n")
    return check(text)


@pytest.mark.parametrize(
    ("updates", "code"),
    [
        (("AT",), "AMP404"),  # the other optimizer's second step raises
        (("LAST",), "AMP410"),  # the scale changes within the window
        (("FIRST",), "AMP410"),
        (("FIRST", "AT"), "AMP410"),
        (("FIRST", "LAST"), "AMP410"),  # nothing is checked but at the boundary
    ],
)
@pytest.mark.parametrize(
    ("period", "severity"), [("every=1", Severity.WARNING), ("every=4", Severity.ERROR), ("every", Severity.ERROR)]
)
def test_two_optimizers_stepped_apart_need_a_scaler_each(
    updates: tuple[str, ...], code: str, period: str, severity: Severity
) -> None:
    (found,) = apart(*updates, period=period)
    assert (found.code, found.severity) == (code, severity)
    assert found.message.startswith("when `every > 1`, ")
    assert OWN in found.message
    assert found.fix is None


@pytest.mark.parametrize("updates", [("BEFORE",), ("AT", "LAST")])
def test_what_is_wrong_in_a_window_of_one_as_well_is_said_without_it(updates: tuple[str, ...]) -> None:
    (found,) = apart(*updates)
    assert (found.code, found.severity) == ("AMP410", Severity.ERROR)
    assert "every > 1" not in found.message


def test_two_optimizers_stepped_apart_with_a_scaler_each_are_right() -> None:
    text = APART.replace("PERIOD", "every=1").replace("# LAST", "scaler.update()").replace("# AT", "own.update()")
    text = text.replace("scaler.scale(loss_g)", "own.scale(loss_g)").replace("scaler.step(opt_g)", "own.step(opt_g)")
    made = 'scaler = torch.amp.GradScaler("cuda")'
    assert check(text.replace(made, f"{made}\n    {made.replace('scaler', 'own', 1)}")) == []


SCALER_EACH = """\
import torch
from networks import Critic, Decoder


def train(loader, rebuild, judge, epochs, start, every):
    by_g = torch.amp.GradScaler("cuda")
    by_c = torch.amp.GradScaler("cuda")
    gen = Decoder().cuda()
    critic = Critic().cuda()
    opt_g = torch.optim.Adam(gen.parameters())
    opt_c = torch.optim.Adam(critic.parameters())
    seen = 0
    for _ in range(epochs):
        opt_g.zero_grad()
        opt_c.zero_grad()
        for x in loader:
            seen += 1
            with torch.autocast("cuda"):
                made = gen(x)
                loss = rebuild(made, x) / every
                # ADVERSARIAL
            by_g.scale(loss).backward()
            # BEFORE
            if seen > start:
                with torch.autocast("cuda"):
                    loss_c = judge(critic(made.detach())) / every
                by_c.scale(loss_c).backward()
                # EARLY
                if seen % every == 0:
                    by_c.step(opt_c)
                    by_c.update()
                    opt_c.zero_grad()
            if seen % every == 0:
                by_g.step(opt_g)
                by_g.update()
                opt_g.zero_grad()
        # REST
"""
TERMS = {
    "none": "",
    "added": "loss = loss + judge(critic(made)) / every",
    "in place": "loss += judge(critic(made)) / every",
    "under a condition": "if seen >= start:\n                    loss += judge(critic(made)) / every",
    "unknown": "loss += rebuild.term(seen)",
}


def with_a_scaler_each(term: str = "", **lines: str) -> list[Finding]:
    text = SCALER_EACH.replace("# ADVERSARIAL", term)
    for mark, line in lines.items():
        text = text.replace(f"# {mark}\n", f"{line}\n")
    return [each for each in check(text) if each.code in ("AMP402", "AMP410")]


@pytest.mark.parametrize("term", TERMS.values(), ids=TERMS)
def test_an_update_does_not_concern_gradients_scaled_by_another_scaler(term: str) -> None:
    assert with_a_scaler_each(term) == []


@pytest.mark.parametrize("term", TERMS.values(), ids=TERMS)
@pytest.mark.parametrize(("mark", "update"), [("BEFORE", "by_g.update()"), ("EARLY", "by_c.update()")])
def test_an_update_before_the_step_of_its_own_scaler_is_found(mark: str, update: str, term: str) -> None:
    assert {each.code for each in with_a_scaler_each(term, **{mark: update})} == {"AMP410"}


@pytest.mark.parametrize("term", TERMS.values(), ids=TERMS)
@pytest.mark.parametrize(("optimizer", "scaler"), [("opt_g", "by_g"), ("opt_c", "by_c")])
def test_a_direct_step_is_told_the_scaler_of_its_own_loss(optimizer: str, scaler: str, term: str) -> None:
    (found,) = with_a_scaler_each(term, REST=f"{optimizer}.step()")
    assert found.code == "AMP402"
    assert f"call `{scaler}.step({optimizer})`" in found.message


def test_no_scaler_is_named_where_either_may_have_scaled_the_gradients() -> None:
    text = SCALER_EACH.replace("gen.parameters()", "critic.trained()").replace("critic.parameters()", "gen.head()")
    text = text.replace("by_g.step(opt_g)", "pass").replace("by_g.update()", "pass").replace("# REST", "opt_g.step()")
    (found,) = [each for each in check(text) if each.code == "AMP402"]
    assert "by_c" not in found.message
    assert "by_g" not in found.message
    assert found.fix is None


UPDATED_WITHOUT_STEP = """\
import torch
from torch import nn


def train(loader, model, optimizer, settings, steps, CLIP):
    scaler = torch.amp.GradScaler("cuda")
    # SETTING
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            loss = nn.functional.mse_loss(model(x), y)
        scaler.scale(loss).backward()
        if TEST:
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        if steps:
            scaler.step(optimizer)
            scaler.update()
        else:
            scaler.update()
"""


@pytest.mark.parametrize("test", ["clip > 0", "clip and clip > 0", "clip is not None and clip > 0"])
@pytest.mark.parametrize(
    ("parameter", "setting", "severity"),
    [
        ("clip=0.5", "", Severity.WARNING),
        ("clip=0.0", "", Severity.ERROR),
        ("clip", "", Severity.ERROR),
        ("_", 'clip = float(settings.get("clip", 0.5))', Severity.WARNING),
        ("_", 'clip = getattr(settings, "clip", 1)', Severity.WARNING),
        ("_", 'clip = settings["clip"]', Severity.ERROR),
    ],
)
def test_an_update_that_has_only_an_unscale_before_it_is_said_with_its_condition(
    parameter: str, setting: str, severity: Severity, test: str
) -> None:
    text = UPDATED_WITHOUT_STEP.replace("CLIP", parameter).replace("# SETTING", setting).replace("TEST", test)
    (found,) = [each for each in check(text) if each.code == "AMP410"]
    assert found.severity == severity
    assert found.message.startswith(f"when `{test}` is false, ")


def test_an_update_with_an_unscale_before_it_on_every_path_is_right() -> None:
    text = UPDATED_WITHOUT_STEP.replace("CLIP", "clip").replace("TEST", "True")
    assert "AMP410" not in {each.code for each in check(text)}
