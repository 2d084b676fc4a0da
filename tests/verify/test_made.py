"""Steps whose scaler or region is made outside them, by an old name: the fix there is the step's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("torch")

import amplint
from amplint.api import make_settings
from amplint.verify.steps.confirm import Confirmation
from amplint.verify.steps.verify import StepRow, Verifier
from tests import some

HEAD = """import functools
import torch
from dataclasses import dataclass, field
from torch.cuda.amp import GradScaler


"""
OLD, NEW = "torch.cuda.amp.GradScaler", "torch.amp.GradScaler"
# What makes the scaler of a `NativeScaler`: code before the class, and in it.
MADE = {
    "constructor": """
class NativeScaler:
    def __init__(self):
        self._scaler = SCALER()
""",
    "arguments": """
class NativeScaler:
    def __init__(self, on=True):
        self._scaler = SCALER(enabled=on)
""",
    "condition": """
class NativeScaler:
    def __init__(self, on):
        self._scaler = SCALER() if on else None
""",
    "method": """
class NativeScaler:
    def setup(self):
        self._scaler = SCALER()
""",
    "property": """
class NativeScaler:
    def __init__(self):
        self._made = None

    @property
    def _scaler(self):
        if self._made is None:
            self._made = SCALER()
        return self._made
""",
    "class": """
class NativeScaler:
    _scaler = SCALER()
""",
    "base": """
class Base:
    def __init__(self):
        self._scaler = SCALER()


class NativeScaler(Base):
""",
    "function": """
def make():
    return SCALER()


class NativeScaler:
    def __init__(self):
        self._scaler = make()
""",
    "module": """
MADE = SCALER()


class NativeScaler:
    def __init__(self):
        self._scaler = MADE
""",
    "alias": """
Scaler = SCALER


class NativeScaler:
    def __init__(self):
        self._scaler = Scaler()
""",
    "partial": """
Scaler = functools.partial(SCALER, enabled=True)


class NativeScaler:
    def __init__(self):
        self._scaler = Scaler()
""",
}
CALL = """
    def __call__(self, loss, optimizer, clip_grad=None, parameters=None, create_graph=False, update_grad=True):
        self._scaler.scale(loss).backward(create_graph=create_graph)
        if update_grad:
            if clip_grad is not None:
                self._scaler.unscale_(optimizer)
                torch.nn.utils.clip_grad_norm_(parameters, clip_grad)
            self._scaler.step(optimizer)
            self._scaler.update()

    def state_dict(self):
        return self._scaler.state_dict()

    def load_state_dict(self, state):
        self._scaler.load_state_dict(state)
"""
# The same of steps that are functions.
USED = {
    "default": """
def use(loss, optimizer, scaler=SCALER()):
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
""",
    "around": """
def make(model, optimizer):
    scaler = SCALER()

    def step(batch):
        with torch.autocast("cuda"):
            loss = model(batch).mean()
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

    return step
""",
    "caller": """
def step(loss, optimizer, scaler):
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()


def main(model, loader, optimizer):
    scaler = SCALER()
    for batch in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            loss = model(batch).mean()
        step(loss, optimizer, scaler)
""",
}
STEP = """
    def step(self, batch):
        with REGION:
            loss = self.model(batch).mean()
        self.optimizer.zero_grad()
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
"""
REGION = """
class Trainer:
    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer
        self.region = torch.cuda.amp.autocast()
        self.scaler = torch.amp.GradScaler("cuda")
"""
FIELD = """
@dataclass
class Trainer:
    model: torch.nn.Module
    scaler: object = field(default_factory=torch.amp.GradScaler)
"""
DEFAULT = """
class Trainer:
    @staticmethod
    def use(loss, optimizer, scaler=torch.amp.GradScaler("cuda")):
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

    def step(self, batch):
        with torch.autocast("cuda"):
            loss = self.model(batch).mean()
        self.optimizer.zero_grad()
        self.use(loss, self.optimizer)
"""


def wrapper(how: str, made: str) -> str:
    return HEAD + MADE[how].replace("SCALER", made) + CALL


@pytest.fixture(scope="module")
def verifier() -> Iterator[Verifier]:
    with Verifier() as found:
        yield found


WARNED = "only a deprecation warning disappears: what was compared was already right"


def verified(verifier: Verifier, text: str) -> StepRow:
    (row,) = verifier.verify("train.py", text.encode(), make_settings())
    return row


def confirmed_then_clean(verifier: Verifier, text: str) -> None:
    row = verified(verifier, text)
    assert (row.verdict, row.reason.partition(";")[0], row.only_run) == ("confirmed", WARNED, [])
    assert {(each.fixed, each.shown) for each in row.findings} == {(True, True)}
    assert row.after is not None
    assert row.after.state == "right"
    assert verified(verifier, amplint.fix(text)).verdict == "clean"


@pytest.mark.parametrize("how", some(MADE, 5))
def test_a_wrapper_whose_scaler_is_made_by_an_old_name(verifier: Verifier, how: str) -> None:
    confirmed_then_clean(verifier, wrapper(how, OLD))


@pytest.mark.parametrize("name", ["GradScaler", "torch.cpu.amp.GradScaler", "torch.cuda.amp.grad_scaler.GradScaler"])
def test_every_old_name(verifier: Verifier, name: str) -> None:
    confirmed_then_clean(verifier, wrapper("constructor", name))


@pytest.mark.parametrize("how", USED)
def test_a_function_whose_scaler_is_made_elsewhere_by_an_old_name(verifier: Verifier, how: str) -> None:
    confirmed_then_clean(verifier, HEAD + USED[how].replace("SCALER", OLD))


def test_a_region_that_is_made_elsewhere_by_an_old_name(verifier: Verifier) -> None:
    confirmed_then_clean(verifier, HEAD + REGION + STEP.replace("REGION", "self.region"))


@pytest.mark.parametrize("how", ["constructor", "class", "module"])
def test_the_fix_is_made_where_runs_have_to_confirm_it(verifier: Verifier, how: str) -> None:
    fixed = Confirmation(verifier, "train.py", wrapper(how, OLD).encode(), make_settings()).fixed
    assert 'torch.amp.GradScaler("cuda")' in fixed.data.decode()


@pytest.mark.sampled(4)
@pytest.mark.parametrize("how", MADE)
def test_a_scaler_without_a_device_is_right(verifier: Verifier, how: str) -> None:
    assert verified(verifier, wrapper(how, NEW)).verdict == "clean"


@pytest.mark.parametrize(
    "text", [wrapper("class", NEW), HEAD + DEFAULT, HEAD + FIELD + STEP.replace("REGION", 'torch.autocast("cuda")')]
)
def test_what_a_class_or_a_default_makes_is_made_once(verifier: Verifier, text: str) -> None:
    row = verified(verifier, text)
    assert (row.verdict, row.before.faults) == ("clean", [])


def test_a_fix_elsewhere_in_the_file_is_not_the_step_s(verifier: Verifier) -> None:
    other = "\n\ndef predict(model, batch):\n    with torch.cuda.amp.autocast():\n        return model(batch)\n"
    text = wrapper("constructor", NEW).replace("GradScaler()", "GradScaler('cuda')")
    row = verified(verifier, text + other)
    assert (row.verdict, row.findings, row.after) == ("clean", [], None)


TWO_OBJECTS = """
import torch


class Stepper:
    def __init__(self, parameters):
        self.optimizer = torch.optim.SGD(parameters, lr=0.1)
        self.scaler = torch.amp.GradScaler("cuda")

    def __call__(self, loss):
        self.optimizer.zero_grad()
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()


class Agent:
    def __init__(self, actor, critic):
        self.actor, self.critic = actor, critic
        self.first = Stepper(actor.parameters())
        self.second = Stepper(critic.parameters())

    def train(self, batches):
        for inputs, targets in batches:
            MADE
            with torch.autocast("cuda", dtype=torch.float16):
                one = torch.nn.functional.cross_entropy(self.actor(inputs), targets)
                other = torch.nn.functional.cross_entropy(self.critic(inputs), targets)
            self.first(one)
            self.second(other)
"""


@pytest.mark.parametrize(("made", "times"), [("pass", False), ("self.first = Stepper(self.actor.parameters())", True)])
def test_two_objects_have_a_scaler_each(verifier: Verifier, made: str, times: bool) -> None:
    rows = verifier.verify("train.py", TWO_OBJECTS.replace("MADE", made).encode(), make_settings())
    said = [fault.text for row in rows for fault in row.before.faults if fault.shows == "scale"]
    assert bool(said) is times
