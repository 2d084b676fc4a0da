"""What AMP420 advises where the arms of an if disagree."""

from __future__ import annotations

import textwrap

import pytest

from amplint import check
from amplint.base.findings import Confidence, Finding

STEP = """
import torch


def train(model, batches, optimizer, scaler, use_amp):
    for inputs, targets in batches:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16, enabled=use_amp):
            loss = torch.nn.functional.cross_entropy(model(inputs), targets)
        if use_amp:
            scaler.scale(loss).backward(){scaled}
            scaler.step(optimizer)
            scaler.update()
        else:
            loss.backward(){plain}
            optimizer.step()
"""
CLIP = "\n            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"


def _disagreements(scaled: str = "", plain: str = "") -> list[Finding]:
    text = STEP.format(scaled=scaled, plain=plain)
    return [finding for finding in check(text, "train.py") if finding.code == "AMP420"]


def test_a_clip_in_the_plain_arm_belongs_after_unscale_in_the_other() -> None:
    (finding,) = _disagreements(plain=CLIP)
    assert finding.message.endswith("clip in both branches (after `unscale_()`)")


def test_a_clip_in_both_arms_is_right() -> None:
    assert not _disagreements("\n            scaler.unscale_(optimizer)" + CLIP, CLIP)


def test_a_branch_without_the_scaler_may_skip_what_is_not_finite() -> None:
    skip = "\n            if torch.isnan(loss):\n                print('skipped')\n                continue"
    text = STEP.format(scaled="", plain=CLIP).replace("        else:", f"        else:{skip}")
    assert [finding.code for finding in check(text, "train.py")] == ["AMP420"]
    other = text.replace("print('skipped')", "optimizer.step()")
    assert "AMP420" not in {finding.code for finding in check(other, "train.py")}


NORM = "\n            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"
STEPS = "            optimizer.step()\n"


@pytest.mark.parametrize(
    "steps",
    [
        "            if torch.isfinite(norm):\n                optimizer.step()\n",
        "            if torch.isnan(norm):\n                print(norm)\n"
        "            else:\n                optimizer.step()\n",
        "            if not norm.isfinite():\n                optimizer.zero_grad()\n                continue\n"
        "            optimizer.step()\n",
        "            if norm.isnan() or norm.isinf():\n                pass\n"
        "            else:\n                optimizer.step()\n",
    ],
)
def test_a_branch_without_the_scaler_may_step_only_where_the_norm_is_finite(steps: str) -> None:
    text = STEP.format(scaled="", plain=NORM).replace(STEPS, steps)
    (finding,) = [each for each in check(text, "train.py") if each.code == "AMP420"]
    assert "clips the gradients" in finding.message
    both = STEP.format(scaled="\n            scaler.unscale_(optimizer)" + NORM, plain=NORM).replace(STEPS, steps)
    assert "AMP420" not in {each.code for each in check(both, "train.py")}


@pytest.mark.parametrize(
    "steps",
    [
        "            if torch.isfinite(norm) and inputs.any():\n                optimizer.step()\n",
        "            if norm < 10:\n                optimizer.step()\n",
        "            if torch.isnan(norm):\n                model.reset()\n"
        "            else:\n                optimizer.step()\n",
    ],
)
def test_a_branch_that_steps_under_another_condition_differs_on_purpose(steps: str) -> None:
    text = STEP.format(scaled="", plain=NORM).replace(STEPS, steps)
    assert "AMP420" not in {each.code for each in check(text, "train.py")}


PRIVATE = """
import torch


class Trainer:
    def __init__(self, model, optimizer, scaler, use_amp):
        self.model, self.optimizer, self.use_amp = model, optimizer, use_amp
        self.scaler = torch.amp.GradScaler("cuda")

    def __save(self, path):
        with open("{}.pt".format(path), "wb") as file:
            file.write(str(self.model).encode())

    def {name}(self, batches):
        for inputs, targets in batches:
            with torch.autocast("cuda", enabled=self.use_amp):
                loss = torch.nn.functional.cross_entropy(self.model(inputs), targets)
            if self.use_amp:
                self.scaler.scale(loss).backward()
                self.scaler.step(self.optimizer)
                self.scaler.update()
            else:
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
        self.__save("last")

    def train(self, batches):
        self.{name}(batches)
"""


@pytest.mark.parametrize(("name", "found"), [("epoch", True), ("__epoch", True), ("__or__", False)])
def test_a_private_method_runs_where_it_is_called(name: str, found: bool) -> None:
    """Of a special one, that may be anywhere: what it clears, too."""
    text = PRIVATE.replace("{name}", name)
    assert ("AMP420" in {each.code for each in check(text, "train.py")}) is found


CONDITIONAL = """
import torch


def train(model, batches, optimizer, scaler, state, most, use_amp):
    optimizer.load_state_dict(state)
    for inputs, targets in batches:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16, enabled=use_amp):
            loss = torch.nn.functional.cross_entropy(model(inputs), targets)
        if not use_amp:
            loss.backward()
            optimizer.step()
        else:
            scaler.scale(loss).backward()
            if most > 0:
                scaler.unscale_(optimizer)
                torch.nn.utils.clip_grad_norm_(model.parameters(), most)
            scaler.step(optimizer)
            scaler.update()
"""


def test_a_branch_clips_under_a_condition_next_to_calls_that_cannot_clip() -> None:
    (finding,) = [each for each in check(CONDITIONAL, "train.py") if each.code == "AMP420"]
    assert finding.message.startswith("this branch clips the gradients, but the branch without the scaler, on line ")
    hooked = CONDITIONAL.replace("    for inputs", "    clip_in_hooks(model, most)\n    for inputs")
    assert "AMP420" not in {each.code for each in check(hooked, "train.py")}


WAITING = """
import torch


class Trainer:
    def __init__(self, model, optimizer, args):
        ASSERT
        self.model, self.optimizer, self.args = model, optimizer, args
        self.scaler = torch.amp.GradScaler("cuda")

    def step(self, i, loss):
        if self.args.amp:
            self.scaler.scale(loss).backward()
            if (i + 1) % self.args.accumulate == 0:
                self.scaler.step(self.optimizer)
                self.scaler.update()
        else:
            loss.backward()
            self.optimizer.step()
"""


def test_an_assert_says_that_only_one_branch_waits() -> None:
    def found(statement: str) -> set[str]:
        return {each.code for each in check(WAITING.replace("ASSERT", statement), "train.py")}

    assert "AMP420" in found("pass")
    assert "AMP420" in found("assert args.amp")
    assert "AMP420" not in found("assert args.amp or args.accumulate == 1")


def test_an_assert_about_other_keys_of_the_settings() -> None:
    """That `args` stands in it as well says nothing."""

    def found(statement: str) -> set[str]:
        text = WAITING.replace("self.args.amp", 'self.args["amp"]').replace("self.args.acc", 'self.args["every"].acc')
        return {each.code for each in check(text.replace("ASSERT", statement), "train.py")}

    assert "AMP420" in found("pass")
    assert "AMP420" in found('assert args["lr"] > 0')
    assert "AMP420" not in found('assert args["amp"] or args["every"].accumulate == 1')


TWO_OPTIMIZERS = """
import torch


def train(model, head, batches, accumulation, use_amp, bf16, ema):
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    opt_b = torch.optim.SGD(head.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda", enabled=use_amp)
    scheduler = torch.optim.lr_scheduler.StepLR(opt, 2)
    for inputs, targets in batches:
        model.train()
        opt.zero_grad()
        opt_b.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16, enabled=use_amp):
            loss = torch.nn.functional.cross_entropy(head(model(inputs)), targets)
{}
    model.eval()
"""
SCALED = "scaler.scale(loss).backward()\nscaler.step(opt)\nscaler.update()"
PLAIN = "loss.backward()\nopt.step()"
CLIPS = "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"
CLIPPED = f"scaler.scale(loss).backward()\nscaler.unscale_(opt)\n{CLIPS}\nscaler.step(opt)\nscaler.update()"
CLIPPED_PLAIN = f"loss.backward()\n{CLIPS}\nopt.step()"


def _arms(scaled: str, plain: str, after: str = "") -> str:
    return f"if use_amp:\n{_in(scaled)}\nelse:\n{_in(plain)}\n{after}"


def _in(text: str, by: int = 4) -> str:
    return textwrap.indent(text, " " * by)


def _found(arms: str) -> list[Finding]:
    text = TWO_OPTIMIZERS.format(_in(arms, 8))
    return [each for each in check(text, "train.py") if each.code == "AMP420"]


@pytest.mark.parametrize(
    ("arms", "said"),
    [
        (
            _arms(SCALED, f"{PLAIN}\nopt_b.step()"),
            "this branch steps the optimizer `opt_b`, but the branch with the scaler, on line 17, does not: ",
        ),
        (
            _arms(SCALED.replace("scaler.up", "scaler.step(opt_b)\nscaler.up"), PLAIN),
            "that branch never trains the parameters of `opt_b`",
        ),
        (f"if use_amp:\n{_in(SCALED)}\n    continue\n{CLIPPED_PLAIN}", "this branch clips the gradients"),
        (
            f"if use_amp:\n{_in(SCALED)}\n    continue\n{PLAIN}\nscheduler.step()",
            "the learning rate of that branch never changes",
        ),
        (
            _arms(f"if bf16:\n{_in(CLIPPED_PLAIN)}\nelse:\n{_in(SCALED)}", CLIPPED_PLAIN),
            "this branch clips the gradients, but the branch with the scaler",
        ),
        (
            _arms("scaler.scale(loss / accumulation).backward()", "loss.backward()")
            + "if use_amp:\n    scaler.step(opt)\n    scaler.update()\nelse:\n    opt.step()",
            "the gradients of that branch are larger by the divisor",
        ),
        (
            _arms(
                "scaler.scale(loss).backward()\nfor each in (opt, opt_b):\n    scaler.step(each)\nscaler.update()",
                f"loss.backward()\n{CLIPS}\nfor each in (opt, opt_b):\n    each.step()",
            ),
            "this branch clips",
        ),
        (_arms(f"if not loss.isfinite():\n    raise ValueError\n{SCALED}", CLIPPED_PLAIN), "this branch clips"),
    ],
)
def test_what_only_one_arm_does(arms: str, said: str) -> None:
    (only,) = _found(arms)
    assert said in only.message
    assert only.confidence is Confidence.CERTAIN


def test_each_suite_is_compared_within_itself() -> None:
    wait = "if step % accumulation == 0:\n"
    every, waits = f"{SCALED}\nopt.zero_grad()", f"loss.backward()\n{wait}    opt.step()\n    opt.zero_grad()"
    scaled = f"scaler.scale(loss).backward()\n{wait}    scaler.step(opt)\n    scaler.update()\n    opt.zero_grad()"
    both, one = _arms(scaled, waits), _arms(every, f"{PLAIN}\nopt.zero_grad()")
    assert not _found(f"if accumulation > 1:\n{_in(both)}\nelse:\n{_in(one)}")
    assert _found(f"if accumulation > 1:\n{_in(_arms(scaled, PLAIN))}\nelse:\n{_in(one)}")


@pytest.mark.parametrize(
    "arms",
    [
        _arms(CLIPPED, PLAIN),
        _arms(f"{SCALED}\nema.update(model)", PLAIN),
        _arms(SCALED, f"{PLAIN}\nema.step(model.parameters())"),
    ],
)
def test_what_only_one_arm_does_and_may_be_meant(arms: str) -> None:
    (only,) = _found(arms)
    assert only.confidence is Confidence.LIKELY


@pytest.mark.parametrize(
    "arms",
    [
        _arms(SCALED, f"{PLAIN}\nopt_b.step()", after="opt_b.step()"),
        _arms(SCALED, "loss.backward()\nopt_b.step()"),  # another one, and not one more
        _arms(SCALED, f"{PLAIN}\nopt_b.zero_grad()\n(loss * 2).backward()\nopt_b.step()"),
        _arms(CLIPPED, CLIPPED_PLAIN),
        _arms(CLIPPED, f"if bf16:\n{_in(CLIPS)}\n{PLAIN}"),
        f"if use_amp:\n{_in(CLIPPED)}\nelif bf16:\n{_in(CLIPPED_PLAIN)}\nelse:\n{_in(PLAIN)}",
        f"if use_amp:\n{_in(SCALED)}\n    continue\n{PLAIN}",
        f"if use_amp:\n{_in(SCALED)}\n{CLIPPED_PLAIN}",  # both are run: other rules' matter
        f"if use_amp:\n{_in(SCALED)}\n    continue\n{PLAIN}\ninputs.cpu()\nscheduler.step()",
        _arms(f"{SCALED}\nema.update(model)", PLAIN, after="ema.update(model)"),
        _arms(f"{SCALED}\nema.update(model)", f"{PLAIN}\nema.update(model)"),
        _arms("scaler.scale(loss).backward()", "loss.backward()") + _arms("scaler.step(opt)", "opt.step()"),
    ],
)
def test_arms_that_do_the_same_or_something_else(arms: str) -> None:
    assert not _found(arms)


METHODS = """
import torch


class Trainer:
    def __init__(self, model, amp):
        self.model, self.amp = model, amp
        self.opt = torch.optim.SGD(model.parameters(), lr=0.1)
        self.scaler = torch.amp.GradScaler("cuda", enabled=amp)

    def one(self, inputs):
        self.opt.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = self.model(inputs).mean()
        self.scaler.scale(loss).backward()
        self.scaler.step(self.opt)
        self.scaler.update()
        return loss.item()

    def two(self, inputs):
        self.opt.zero_grad()
        loss = self.model(inputs).mean()
        loss.backward()
        {clip}
        self.opt.step()
        return loss.item()

    def fit(self, batches):
        for inputs in batches:
{call}
"""


@pytest.mark.parametrize(
    "call",
    [
        "if self.amp:\n    said = self.one(inputs)\nelse:\n    said = self.two(inputs)",
        "if self.amp:\n    self.one(inputs)\nelse:\n    self.two(inputs)",
        "if self.amp:\n    self.one(inputs)\n    continue\nself.two(inputs)",
        "if self.amp:\n    return self.one(inputs)\nreturn self.two(inputs)",
        "said = self.one(inputs) if self.amp else self.two(inputs)",
    ],
)
def test_arms_that_are_methods(call: str) -> None:
    clip = "torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)"
    for each, wanted in (clip, ["AMP420"]), ("pass", []):
        text = METHODS.format(clip=each, call=_in(call, 12))
        assert [found.code for found in check(text, "train.py") if found.code == "AMP420"] == wanted


GONE = """
import torch
BEFORE

def train(student, batches, criterion, optimizer, scaler, clip_gradients, args):
    for inputs, targets in batches:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16, enabled=scaler is not None):
            loss = criterion(student(inputs), targets)
        if scaler is None:
            loss.backward()
            clip_gradients(model, args.clip)
            optimizer.step()
        else:
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            clip_gradients(student, args.clip)
            scaler.step(optimizer)
            scaler.update()
"""


@pytest.mark.parametrize(
    ("before", "found"),
    [
        ("", True),
        ("args = make()\nprint(vars(args))", True),
        ('known = "model" in globals() and globals()["model"]', True),
        ("exec(make())", False),
        ('globals()["model"] = make()', False),
        ("globals().update(make())", False),
    ],
)
def test_a_name_of_one_branch_that_nothing_binds(before: str, found: bool) -> None:
    said = [each.message for each in check(GONE.replace("BEFORE", before), "train.py") if each.code == "AMP420"]
    assert any(message.startswith("`model` is not defined in this file") for message in said) is found
