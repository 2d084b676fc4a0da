"""AMP420 where a scaler is None, or not there, in a branch that uses it all the same."""

from __future__ import annotations

import pytest

from amplint import check

LOOP = """\
import torch


def train(args, model, data):
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    MADE
    adversarial = False
    for step, (x, y) in enumerate(data):
        optimizer.zero_grad()
        with torch.autocast("cuda", enabled=args.amp):
            loss = model(x, y)
        if args.amp:
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        else:
            loss.backward()
            optimizer.step()
        USE
        if step % 2 == 0:
            if adversarial:
                adversarial = False
            else:
                adversarial = ADVERSARIAL
"""
CLASS = """\
import torch


class Trainer:
    def __init__(self, config, model):
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), 0.1)
        self.scaler = torch.amp.GradScaler("cuda") if config.amp else None
        if config.checkpoint is not None:
            LOAD

    def step(self, x, y):
        self.optimizer.zero_grad()
        with torch.autocast("cuda", enabled=self.scaler is not None):
            loss = self.model(x, y)
        if self.scaler is not None:
            self.scaler.scale(loss).backward()
            self.scaler.step(self.optimizer)
            self.scaler.update()
        else:
            loss.backward()
            self.optimizer.step()

    def save(self, path):
        SAVE
"""
NONE = ("scaler = torch.amp.GradScaler('cuda') if args.amp else None", "is None, and this line raises AttributeError")
UNBOUND = ("if args.amp:\n        scaler = torch.amp.GradScaler('cuda')", "if `args.amp` is false, this line raises")


def found(text: str) -> list[str]:
    return [each.message for each in check(text) if each.code == "AMP420"]


def in_loop(made: str, use: str, adversarial: str = "True") -> list[str]:
    return found(LOOP.replace("MADE", made).replace("USE", use).replace("ADVERSARIAL", adversarial))


@pytest.mark.parametrize(("made", "says"), [NONE, UNBOUND], ids=["none", "unbound"])
@pytest.mark.parametrize(
    "use",
    [
        "print(scaler.get_scale())",
        "if step % 100 == 0:\n            torch.save(scaler.state_dict(), 'scaler.pt')",
        "if step == len(data) - 1:\n            torch.save(scaler.state_dict(), 'scaler.pt')",
    ],
)
def test_a_method_is_called_where_there_is_no_scaler(made: str, says: str, use: str) -> None:
    (message,) = in_loop(made, use)
    assert says in message


@pytest.mark.parametrize(("made", "says"), [NONE, UNBOUND], ids=["none", "unbound"])
def test_what_the_loop_itself_sets_is_not_the_flag(made: str, says: str) -> None:
    use = "if not adversarial:\n            print(scaler.get_scale())"
    (message,) = in_loop(made, use)
    assert says in message
    assert not in_loop(made, use, "not args.amp")


@pytest.mark.parametrize(("made", "says"), [NONE, UNBOUND], ids=["none", "unbound"])
@pytest.mark.parametrize(
    "use",
    [
        "pass",
        "if args.amp:\n            print(scaler.get_scale())",
        "print(scaler.get_scale() if args.amp else 1.0)",
        "if not args.amp:\n            continue\n        print(scaler.get_scale())",
        "if args.half_precision:\n            print(scaler.get_scale())",
        "if 'scaler' in args.logged:\n            print(scaler.get_scale())",
        "try:\n            print(scaler.get_scale())\n        except Exception:\n            pass",
    ],
)
def test_a_method_is_called_only_with_a_scaler(made: str, says: str, use: str) -> None:
    assert not in_loop(made, use)


def test_a_scaler_that_an_object_keeps() -> None:
    save = 'torch.save({"optimizer": self.optimizer.state_dict(), "scaler": self.scaler.state_dict()}, path)'
    (message,) = found(CLASS.replace("LOAD", "pass").replace("SAVE", save))
    assert message.startswith("if `config.amp` is false, `self.scaler` is None")
    (message,) = found(CLASS.replace("LOAD", "self.scaler.load_state_dict(config.state)").replace("SAVE", "pass"))
    assert message.startswith("if `config.amp` is false, `self.scaler` is None")


def test_a_save_of_each_run_is_marked_before_a_load_of_those_that_go_on() -> None:
    text = CLASS.replace("LOAD", "self.scaler.load_state_dict(config.state)")
    text = text.replace("SAVE", "torch.save(self.scaler.state_dict(), path)")
    (one,) = (each for each in check(text) if each.code == "AMP420")
    assert text[one.start :].startswith("self.scaler.state_dict()")


@pytest.mark.parametrize(
    "save",
    [
        "if self.scaler is not None:\n            torch.save(self.scaler.state_dict(), path)",
        "if self.scaler is None:\n            return\n        torch.save(self.scaler.state_dict(), path)",
        "torch.save(self.scaler.state_dict() if self.scaler is not None else None, path)",
        "torch.save(self.scaler and self.scaler.state_dict(), path)",
        "assert self.scaler is not None\n        torch.save(self.scaler.state_dict(), path)",
        "if self.scaler:\n            torch.save(self.scaler.state_dict(), path)",
    ],
)
def test_a_scaler_that_an_object_keeps_and_asks_for(save: str) -> None:
    assert not found(CLASS.replace("LOAD", "pass").replace("SAVE", save))


def test_a_scaler_that_is_none_without_cuda() -> None:
    # Nobody trains this program without.
    text = CLASS.replace("config.amp", "torch.cuda.is_available()").replace("LOAD", "pass")
    assert not found(text.replace("SAVE", "torch.save(self.scaler.state_dict(), path)"))


MADE_BY_A_HELPER = """\
import torch


def make(device="cuda"):
    if hasattr(torch.amp, "GradScaler"):
        try:
            return torch.amp.GradScaler(device)
        except Exception:
            pass
    if hasattr(torch.cuda.amp, "GradScaler"):
        return torch.cuda.amp.GradScaler()
    return None


def save(path, model, scaler):
    torch.save({"model": model.state_dict(), "scaler": STATE}, path)


def train(model, loader, use_amp=True, dtype="fp16"):
    optimizer = torch.optim.AdamW(model.parameters())
    scaler = make() if use_amp and dtype.lower() in ("fp16", "float16") else None
    for x, y in loader:
        with torch.autocast("cuda", dtype=torch.float16, enabled=scaler is not None):
            loss = torch.nn.functional.cross_entropy(model(x), y)
        if scaler is not None:
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        optimizer.zero_grad()
    save("last.pt", model, scaler)
"""


@pytest.mark.parametrize(
    ("state", "count"),
    [
        ("scaler.state_dict() if scaler is not None else None", 0),
        ("None if scaler is None else scaler.state_dict()", 0),
        ("scaler.state_dict() if scaler and path else None", 0),
        ("scaler and scaler.state_dict()", 0),
        ("scaler.state_dict()", 1),
        ("scaler.state_dict() if path is not None else None", 1),
    ],
)
def test_a_test_of_the_scaler_itself_decides(state: str, count: int) -> None:
    assert len(found(MADE_BY_A_HELPER.replace("STATE", state))) == count
