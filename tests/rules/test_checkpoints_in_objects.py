"""AMP413: checkpoints whose writer is given an object with the states' owners, and states that a loader isn't given."""

from __future__ import annotations

from pathlib import Path

import pytest

import amplint

WRITER = """\
import dataclasses
import typing

import torch


@dataclasses.dataclass
class State:
    model: torch.nn.Module
    step: int
    optimizer: typing.Any = None
    scaler: typing.Any = None


class Kept:
    def __init__(self, model, optimizer, scaler=None):
        self.model = model
        self.optimizer = optimizer
        self.scaler = scaler


def write(state, path):
    optimizer = state.optimizer
    content = {"model": state.model.state_dict()}
    if optimizer is not None:
        content["optimizer"] = optimizer.state_dict()
    torch.save(content, path)


def write_plainly(state, path):
    torch.save({"model": state.model.state_dict(), "optimizer": state.optimizer.state_dict()}, path)


def read(path, model, optimizer):
    content = torch.load(path)
    model.load_state_dict(content["model"])
    optimizer.load_state_dict(content["optimizer"])


"""
WITH_THE_SCALER = """\
def write_all(state, path):
    content = {"model": state.model.state_dict(), "optimizer": state.optimizer.state_dict()}
    if state.scaler is not None:
        content["scaler"] = state.scaler.state_dict()
    torch.save(content, path)


def read_all(path, model, optimizer, scaler):
    content = torch.load(path)
    model.load_state_dict(content["model"])
    optimizer.load_state_dict(content["optimizer"])
    scaler.load_state_dict(content["scaler"])


"""
TRAIN = """\
def train(model, loader, criterion, path):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    READ
    for x, y in loader:
        with torch.autocast("cuda", dtype=torch.float16):
            loss = criterion(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        SAVE
"""
READ, READ_ALL = "read(path, model, optimizer)", "read_all(path, model, optimizer, scaler)"


def program(save: str, read: str = READ) -> str:
    return TRAIN.replace("READ", read).replace("SAVE", save)


def codes(text: str, filename: str = "<string>") -> list[str]:
    return [each.code for each in amplint.check(text, filename) if each.code == "AMP413"]


WITHOUT = [
    "write(State(model=model, step=1, optimizer=optimizer), path)",
    "write(State(model, 1, optimizer), path)",
    "write_plainly(State(model, 1, optimizer), path)",
    "write_plainly(Kept(model, optimizer), path)",
    "write(state=Kept(optimizer=optimizer, model=model), path=path)",
    "state = State(model, 1, optimizer); write(state, path)",
]


@pytest.mark.parametrize("save", WITHOUT)
def test_an_object_without_the_scaler_is_written(save: str) -> None:
    assert codes(WRITER + program(save)) == ["AMP413"]


@pytest.mark.parametrize("save", WITHOUT[:4])
def test_the_writer_is_in_another_file(tmp_path: Path, save: str) -> None:
    (tmp_path / "states.py").write_text(WRITER)
    main = tmp_path / "main.py"
    main.write_text("import torch\nfrom states import Kept, State, read, write, write_plainly\n\n\n" + program(save))
    assert codes(main.read_text(), str(main)) == ["AMP413"]


@pytest.mark.parametrize(
    "save",
    [
        "write_all(State(model, 1, optimizer, scaler), path)",
        "write_all(Kept(model, optimizer, scaler=scaler), path)",
        "write_all(State(model=model, step=1, scaler=scaler, optimizer=optimizer), path)",
        "state = Kept(model, optimizer, scaler); write_all(state, path)",
    ],
)
def test_an_object_with_the_scaler_is_written(save: str) -> None:
    assert codes(WRITER + WITH_THE_SCALER + program(save, READ_ALL)) == []


def test_an_object_with_another_optimizer_is_written() -> None:
    save = "write(State(other, 1, torch.optim.SGD(other.parameters(), lr=0.1)), path)"
    assert codes(WRITER + program(save).replace("def train(", "def train(other, ")) == []


MANAGER = """\
import torch


class Manager:
    def __init__(self, folder):
        self.folder = folder

    def save(self, model, optimizer=None, scaler=None, step=0):
        content = {"model": model.state_dict()}
        if optimizer is not None:
            content["optimizer"] = optimizer.state_dict()
        if scaler is not None:
            content["scaler"] = scaler.state_dict()
        torch.save(content, self.folder / f"{step}.pt")

    def load(self, path, model, optimizer=None, scaler=None):
        content = torch.load(path)
        model.load_state_dict(content["model"])
        if optimizer is not None:
            optimizer.load_state_dict(content["optimizer"])
        if scaler is not None and "scaler" in content:
            scaler.load_state_dict(content["scaler"])
        return content


"""
TRAINER = """\
class Trainer:
    def __init__(self, model, folder, path):
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        self.scaler = MADE
        self.manager = Manager(folder)
        if path is not None:
            self.resume(path)

    def make_scaler(self):
        return torch.amp.GradScaler("cuda")

    def resume(self, path):
        self.manager.load(GIVEN)

    def train(self, loader, criterion):
        for x, y in loader:
            with torch.autocast("cuda", dtype=torch.float16):
                loss = criterion(self.model(x), y)
            self.scaler.scale(loss).backward()
            self.scaler.step(self.optimizer)
            self.scaler.update()
            self.optimizer.zero_grad()
        self.manager.save(self.model, self.optimizer, scaler=self.scaler)
"""
MADE = ['torch.amp.GradScaler("cuda")', "self.make_scaler()"]


def trainer(made: str, given: str) -> str:
    return TRAINER.replace("MADE", made).replace("GIVEN", given)


@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("path, self.model, self.optimizer", ["AMP413"]),
        ("path=path, model=self.model, optimizer=self.optimizer", ["AMP413"]),
        ("path, self.model, self.optimizer, None", ["AMP413"]),
        ("path, self.model, self.optimizer, self.scaler", []),
        ("path, self.model, optimizer=self.optimizer, scaler=self.scaler", []),
        ("path, self.model", []),
    ],
)
def test_a_loader_that_takes_a_scaler_is_given_none(made: str, given: str, expected: list[str]) -> None:
    assert codes(MANAGER + trainer(made, given)) == expected


@pytest.mark.parametrize(("first", "second", "row"), [("best.pt", "last.pt", 19), ("last.pt", "best.pt", 17)])
def test_the_checkpoint_that_is_not_of_the_best_model_is_marked(first: str, second: str, row: int) -> None:
    save = f"""\
if loss < 1:
            name = "{first}"
            torch.save({{"model": model.state_dict(), "optimizer": optimizer.state_dict()}}, name)
        name = "{second}"
        torch.save({{"model": model.state_dict(), "optimizer": optimizer.state_dict()}}, name)
"""
    found = amplint.check("import torch\n\n\n" + program(save, "resume(path, model, optimizer)"))
    assert [each.location.row for each in found if each.code == "AMP413"] == [row]


STEPPER = """\
import torch


class Stepper:
    def __init__(self, optimizer, amp):
        self.optimizer = optimizer
        self.grad_scaler = torch.amp.GradScaler("cuda") if amp else None

    def step(self, loss):
        if self.grad_scaler is not None:
            self.grad_scaler.scale(loss).backward()
            self.grad_scaler.step(self.optimizer)
            self.grad_scaler.update()
        else:
            loss.backward()
            self.optimizer.step()

    def state_dict(self):
        return self.optimizer.state_dict()

    def load_state_dict(self, state):
        self.optimizer.load_state_dict(state)


def train(stepper, model, batches, criterion):
    for inputs, targets in batches:
        with torch.autocast("cuda", dtype=torch.float16):
            loss = criterion(model(inputs), targets)
        stepper.step(loss)
"""
SAVES_BOTH = STEPPER.replace(
    "return self.optimizer.state_dict()",
    'return {"optimizer": self.optimizer.state_dict(), "scaler": self.grad_scaler and self.grad_scaler.state_dict()}',
)
NEVER_LOADS = STEPPER.replace("self.optimizer.load_state_dict(state)", "raise NotImplementedError")
SAVED_BY_THE_CALLER = f"""\
{STEPPER}
    torch.save((stepper.state_dict(), stepper.grad_scaler.state_dict()), "states.pt")
"""


def test_a_class_gives_the_state_of_its_optimizer_alone() -> None:
    found = [each for each in amplint.check(STEPPER, "train.py") if each.code == "AMP413"]
    assert [(each.location.row, each.confidence) for each in found] == [(19, "likely")]


@pytest.mark.parametrize("text", [SAVES_BOTH, NEVER_LOADS, SAVED_BY_THE_CALLER])
def test_a_class_gives_both_states_or_is_never_loaded(text: str) -> None:
    assert "AMP413" not in {each.code for each in amplint.check(text, "train.py")}


SAVES_A_WHOLE = """\
import collections
import dataclasses

import torch

Snapshot = collections.namedtuple("Snapshot", ["model", "optimizer", "epoch"])


@dataclasses.dataclass
class Kept:
    model: dict
    optimizer: dict
    epoch: int


class Trainer:
    def __init__(self, model, path):
        self.model = model
        self.optimizer = torch.optim.AdamW(model.parameters())
        self.scaler = torch.amp.GradScaler("cuda")
        saved = torch.load(path)
        self.model.load_state_dict(saved["model"])
        self.optimizer.load_state_dict(saved["optimizer"])

    def train(self, loader):
        for epoch in range(10):
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = torch.nn.functional.cross_entropy(self.model(x), y)
                self.scaler.scale(loss).backward()
                self.scaler.step(self.optimizer)
                self.scaler.update()
                self.optimizer.zero_grad()
            self.save(epoch)

    def save(self, epoch):
        SAVE
"""
BOTH = "self.model.state_dict(), self.optimizer.state_dict()"
IN_A_DICT = '{"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}'


@pytest.mark.parametrize(
    "save",
    [
        f"state = Snapshot({BOTH}, epoch)\ntorch.save(state._asdict(), 'last.pt')",
        f"torch.save(Snapshot({BOTH}, epoch)._asdict(), 'last.pt')",
        f"state = Kept({BOTH}, epoch)\ntorch.save(dataclasses.asdict(state), 'last.pt')",
        f"state = Kept({BOTH}, epoch)\ntorch.save(state.__dict__, 'last.pt')",
        f"state = Kept({BOTH}, epoch)\ntorch.save(vars(state), 'last.pt')",
        f"self.state = {IN_A_DICT}\ntorch.save(self.state, 'last.pt')",
        f"state = {IN_A_DICT}\ntorch.save(state.copy(), 'last.pt')",
    ],
)
def test_states_in_an_object_that_is_saved_as_a_whole(save: str) -> None:
    text = SAVES_A_WHOLE.replace("SAVE", save.replace("\n", "\n        "))
    (found,) = (each for each in amplint.check(text, "train.py") if each.code == "AMP413")
    assert found.message.startswith("the checkpoint has the optimizer's state but not the scaler's: ")
    assert found.location.row == text[: text.index("self.optimizer.state_dict()")].count("\n") + 1


@pytest.mark.parametrize(
    "save",
    [
        f"self.state = {IN_A_DICT}\nself.state['scaler'] = self.scaler.state_dict()\ntorch.save(self.state, 'last.pt')",
        f"state = Kept({BOTH}, epoch)\ncomplete(self, state)\ntorch.save(vars(state), 'last.pt')",
        f"self.state = {IN_A_DICT}\ncomplete(self.state)\ntorch.save(self.state, 'last.pt')",
        f"state = Snapshot({BOTH}, epoch)\nprint(state._asdict())",
    ],
)
def test_states_in_an_object_that_another_adds_to_or_nobody_saves(save: str) -> None:
    text = SAVES_A_WHOLE.replace("SAVE", save.replace("\n", "\n        "))
    assert "but not the scaler's" not in " ".join(each.message for each in amplint.check(text, "train.py"))


TRAINER_WITH_A_STATE = """\
import torch


class Trainer:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.AdamW(model.parameters())
        self.scaler = torch.amp.GradScaler("cuda")

    def step(self, x, y):
        with torch.autocast("cuda", dtype=torch.float16):
            loss = torch.nn.functional.cross_entropy(self.model(x), y)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad()

    def state_dict(self):
        return {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()ENTRY}

    def load_state_dict(self, state):
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
"""


@pytest.mark.parametrize(("entry", "count"), [("", 1), (', "scaler": self.scaler.state_dict()', 0)])
def test_a_trainer_returns_the_states_in_a_dict(entry: str, count: int) -> None:
    found = amplint.check(TRAINER_WITH_A_STATE.replace("ENTRY", entry), "trainer.py")
    messages = [each.message for each in found if "`Trainer.state_dict()` has the optimizer's state" in each.message]
    assert len(messages) == count
