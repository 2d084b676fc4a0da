"""Steps that train with accelerate: what its Accelerator does with scaler, optimizers and micro steps."""

from __future__ import annotations

import pytest

from amplint.verify.steps.judge import RIGHT, WRONG
from tests.interpreting import Ran, interpret

SETUP = """
from accelerate import Accelerator
import torch

def main(args, model, loader):
    accelerator = Accelerator(mixed_precision="fp16", gradient_accumulation_steps={period})
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for batch in loader:
"""


def step(*lines: str, period: str = "1") -> Ran:
    body = "".join(f"        {line}\n" for line in lines)
    (found,) = interpret(SETUP.format(period=period) + body)
    return found


ACCUMULATE = (
    "with accelerator.accumulate(model):",
    "    loss = model(**batch).loss",
    "    accelerator.backward(loss)",
)
CLIP = "accelerator.clip_grad_norm_(model.parameters(), 1.0)"
USE = ("    optimizer.step()", "    optimizer.zero_grad()")


@pytest.mark.parametrize("period", ["1", "2", "args.period"])
def test_a_clip_of_the_last_micro_step_is_right(period: str) -> None:
    found = step(*ACCUMULATE, "    if accelerator.sync_gradients:", f"        {CLIP}", *USE, period=period)
    assert (found.judged.state, found.judged.faults) == (RIGHT, [])
    assert found.runs.paths[0].observed.clip.count
    assert found.runs.paths[0].overflows  # and an overflow in one iteration is left out


def test_the_region_of_a_prepared_model_is_accelerates() -> None:
    """Nothing is said of a region that may be in the model."""
    call = "    loss = torch.nn.functional.cross_entropy(model(batch[0]), batch[1])"
    found = step(*ACCUMULATE[:1], call, *ACCUMULATE[2:], *USE)
    assert (found.judged.state, found.judged.unseen) == (RIGHT, "")


def test_a_clip_of_each_micro_step_unscales_twice() -> None:
    found = step(*ACCUMULATE, f"    {CLIP}", *USE, period="2")
    assert found.judged.state == WRONG
    assert "unscale_() has already been called" in found.judged.faults[0].text


def test_so_do_two_clips_of_one_step() -> None:
    found = step(*ACCUMULATE, f"    {CLIP}", f"    {CLIP}", *USE)
    assert "unscale_() has already been called" in found.judged.faults[0].text


def test_torchs_own_clip_sees_scaled_gradients() -> None:
    found = step(*ACCUMULATE, "    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)", *USE)
    assert "clip saw 512 x the true norm" in found.judged.faults[0].text


def test_gradients_are_scaled_only_in_float16() -> None:
    found = interpret(
        SETUP.format(period="1").replace('"fp16"', '"bf16"')
        + """
        with accelerator.autocast():
            loss = model(batch).mean()
        accelerator.backward(loss)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
"""
    )
    assert [each.judged.state for each in found] == [RIGHT]


def test_the_scale_changes_between_the_steps_of_two_optimizers() -> None:
    (found,) = interpret(
        """
from accelerate import Accelerator
import torch

class Trainer:
    def __init__(self, one, other):
        self.accelerator = Accelerator(mixed_precision="fp16")
        self.one, self.other = one, other
        self.opt_one = torch.optim.SGD(one.parameters(), lr=0.1)
        self.opt_other = torch.optim.SGD(other.parameters(), lr=0.1)
        self.opt_one, self.opt_other = self.accelerator.prepare(self.opt_one, self.opt_other)

    def step(self, batch):
        loss = self.one(batch).mean() + self.other(batch).mean()
        self.accelerator.backward(loss)
        self.opt_one.step()
        self.opt_other.step()
        self.opt_one.zero_grad()
        self.opt_other.zero_grad()
"""
    )
    assert "gradient" in found.shown


def test_an_optimizer_that_was_not_prepared_steps_on_scaled_gradients() -> None:
    (found,) = interpret(
        SETUP.format(period="1").replace("model, optimizer, loader = accelerator.prepare(model, optimizer, loader)", "")
        + "".join(f"        {line}\n" for line in (*ACCUMULATE, *USE))
    )
    assert found.judged.state == WRONG


def test_a_trainer_that_is_a_module_makes_gradients_in_its_forward() -> None:
    (found,) = interpret(
        """
from accelerate import Accelerator
from torch import nn
import torch

class Trainer(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model
        self.accelerator = Accelerator(mixed_precision="fp16")
        self.optimizer = self.accelerator.prepare(torch.optim.Adam(model.parameters(), lr=1e-3))

    def forward(self, batch):
        loss = self.model(batch)
        self.accelerator.backward(loss)

    def step(self, batch):
        self(batch)
        self.accelerator.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()
"""
    )
    assert (found.judged.state, found.judged.faults) == (RIGHT, [])


def test_a_clip_in_a_method_unscales_what_its_caller_steps() -> None:
    (found,) = interpret(
        """
from accelerate import Accelerator

class Trainer:
    def __init__(self, model, optimizer):
        self.accelerator = Accelerator(mixed_precision="fp16")
        self.model, self.optimizer = self.accelerator.prepare(model, optimizer)

    def clip(self):
        self.accelerator.clip_grad_norm_(self.model.parameters(), 1.0)

    def step(self, batch):
        loss = self.model(batch).mean()
        self.accelerator.backward(loss)
        self.clip()
        self.optimizer.step()
        self.optimizer.zero_grad()
"""
    )
    assert (found.judged.state, found.judged.faults) == (RIGHT, [])


BASELINE = """
    plain = torch.optim.SGD(other.parameters(), lr=0.1)
    for batch in loader:
        other(batch).mean().backward()
        plain.step()
        plain.zero_grad()
"""


def test_what_is_trained_without_it_beside_it_is_left_alone() -> None:
    text = SETUP.format(period="1").replace(
        "main(args, model, loader):", f"main(args, model, other, loader):{BASELINE}"
    )
    (found,) = interpret(text + "".join(f"        {line}\n" for line in (*ACCUMULATE, *USE)))
    assert (found.judged.state, found.judged.faults) == (RIGHT, [])


def test_of_an_optimizer_from_elsewhere_it_can_t_be_seen_whether_it_was_prepared() -> None:
    (found,) = interpret(
        """
from accelerate import Accelerator

def main(accelerator, model, optimizer, loader, plain):
    for batch in loader:
        loss = model(batch).mean()
        if plain:
            loss.backward()
        else:
            accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
"""
    )
    assert found.judged.reason.endswith("amplint can't see whether the optimizer was prepared")


def test_an_accelerator_with_another_scaler_can_t_be_followed() -> None:
    found = step("accelerator.scaler = torch.amp.GradScaler('cuda')", *ACCUMULATE, *USE)
    assert found.judged.reason == "line 10: the scaler of an Accelerator is set"


def test_only_a_file_that_imports_accelerate_has_an_accelerator() -> None:
    assert (
        interpret("def f(accelerator, loss, optimizer):\n    accelerator.backward(loss)\n    optimizer.step()\n") == []
    )


UNGUARDED = ("    accelerator.clip_grad_norm_(model.parameters(), 1.0)", *USE)


@pytest.mark.parametrize(
    ("given", "assumed"),
    [
        ('mixed_precision="fp16", ', ""),
        ("mixed_precision=args.precision, ", "args.precision is 'fp16'"),
        ("", "accelerator.mixed_precision is 'fp16'"),
    ],
)
def test_what_a_precision_out_of_sight_is_taken_for_is_named(given: str, assumed: str) -> None:
    setup = SETUP.format(period="2").replace('mixed_precision="fp16", ', given)

    def faults(*lines: str) -> list[str]:
        (found,) = interpret(setup + "".join(f"        {line}\n" for line in (*ACCUMULATE, *lines)))
        return [each.path for each in found.judged.faults if each.shows == "exception"]

    assert faults(*UNGUARDED) == [assumed]
    assert faults("    if accelerator.sync_gradients:", f"        {CLIP}", *USE) == []


def test_only_conditions_that_a_fault_needs_are_named() -> None:
    asked = ("    if args.clip > 0:", "        accelerator.clip_grad_norm_(model.parameters(), args.clip)", *USE)
    logged = ("    if 'nu' in batch:", "        optimizer.zero_grad()")
    found = step(*ACCUMULATE, *asked, *logged, period="args.period")
    (fault,) = [each for each in found.judged.faults if each.shows == "exception"]
    assert fault.path == "accelerator.gradient_accumulation_steps = 2, args.clip > 0"
