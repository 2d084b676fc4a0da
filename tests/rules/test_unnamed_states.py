"""AMP413: code that takes states without naming the scaler's is that of one class, and only where it takes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplint import check
from amplint.base.findings import Finding
from amplint.base.paths import look_again

TRAINER = """
class {name}:
    def __init__(self, model):
        self.model = model
        self.opt = torch.optim.SGD(model.parameters(), lr=0.1)
        self.s = torch.amp.GradScaler("cuda")
    def one(self, x, y):
        self.opt.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = torch.nn.functional.mse_loss(self.model(x), y)
        self.s.scale(loss).backward()
        self.s.step(self.opt)
        self.s.update()
    def load(self, path):
        state = torch.load(path)
        self.model.load_state_dict(state["model"])
        self.opt.load_state_dict(state["opt"])
{more}
"""
SAVE = """
    def save(self, path):
        state = {"model": self.model.state_dict(), "opt": self.opt.state_dict()}
        MORE
        torch.save(state, path)
"""
BY_NAME = """
    def save(self, path):
        torch.save({"opt": self.opt.state_dict(), **{k: getattr(self, k).state_dict() for k in self.parts}}, path)
"""


def found(text: str, filename: str = "train.py") -> list[Finding]:
    return [each for each in check(text, filename) if each.code == "AMP413"]


def trainer(more: str, name: str = "Trainer") -> str:
    return TRAINER.format(name=name, more=more)


def saving(*more: str) -> str:
    return "import torch\n" + trainer(SAVE.replace("MORE", "\n        ".join(more)))


def test_what_one_class_takes_by_its_names_is_none_of_another_ones() -> None:
    text = "import torch\n" + trainer(SAVE.replace("MORE", "pass"), "A") + trainer(BY_NAME, "B")
    (only,) = found(text)
    assert only.start < text.index("class B")


def test_what_a_class_takes_by_its_names_may_be_a_subclass_s() -> None:
    base = "import torch\n\nclass Base:\n" + BY_NAME
    text = base + trainer(SAVE.replace("MORE", "pass")).replace("class Trainer:", "class Trainer(Base):")
    assert not found(text)


TAKEN = {
    "items": ("for k, v in self.__dict__.items():", '    if hasattr(v, "state_dict"): state[k] = v.state_dict()'),
    "vars": ('state.update({k: v.state_dict() for k, v in vars(self).items() if hasattr(v, "state_dict")})',),
    "values": ("for v in list(vars(self).values()): state[type(v)] = v.state_dict()",),
    "by name": ("for k in self.__dict__: state[k] = self.__dict__[k].state_dict()",),
    "by name, later": ("for k in sorted(vars(self)):", "    v = getattr(self, k)", "    state[k] = v.state_dict()"),
    "names in sight": ('for k in ("s", "sched"):', "    state[k] = getattr(self, k).state_dict()"),
    "part of a name": ('for k in range(2): state[k] = getattr(self, f"{k}s").state_dict()',),
    "handed on": ("for k, v in self.__dict__.items(): add(state, k, v)",),
    "to one in sight": ("for k, v in self.__dict__.items(): put(state, v)",),
    "all": ("state.update(self.__dict__)",),
    "by a variable": ("d = self.__dict__.copy()", "state.update(d)"),
    "itself": ('torch.save(self, "whole.pt")',),
    "itself, in a dict": ('torch.save({"me": self}, "whole.pt")',),
    "itself, to a helper": ("keep(self)",),
    "its attribute, to a helper": ("put(state, getattr(self, path))",),
    "in a helper": ("more(self, state)",),
    "in a helper's helper": ("further(self, state)",),
    "by a method": ("state[path] = self.part(path).state_dict()",),
}
HELPERS = """
def put(state, value):
    state[value] = value.state_dict()
def keep(whole):
    torch.save(whole, "whole.pt")
def more(t, state):
    for k, v in vars(t).items():
        state[k] = v.state_dict()
def further(trainer, state):
    more(trainer, state)
"""
PART = """
    def part(self, name):
        return getattr(self, name)
"""


@pytest.mark.parametrize("more", TAKEN.values(), ids=TAKEN)
def test_it_is_silent_where_the_scaler_s_state_may_be_taken(more: tuple[str, ...]) -> None:
    assert not found(saving(*more) + PART + HELPERS)


RETURNED = {
    "all": "    def dump(self):\n        return dict(self.__dict__)\n",
    "one": PART,
    "an item": "    def __getitem__(self, name):\n        return getattr(self, name)\n",
}


@pytest.mark.parametrize("method", RETURNED.values(), ids=RETURNED)
def test_it_is_silent_where_a_method_gives_the_attributes_to_others(method: str) -> None:
    assert not found(saving("pass") + method)


LOOKED_AT = {
    "names": ("print(sorted(self.__dict__))",),
    "some names": ("names = [k for k in self.__dict__ if k[0] != '_']", "print(names, len(vars(self)))"),
    "keys": ("for k in vars(self).keys(): print(k)",),
    "types": ("print({k: type(v).__name__ for k, v in self.__dict__.items()})",),
    "modules": ("for v in vars(self).values():", "    if isinstance(v, torch.nn.Module): v.eval()"),
    "logged": ("logger.info(self.__dict__)",),
    "text": ("print(f'{self.__dict__}')",),
    "set": ("self.__dict__.update(path=path)",),
    "one": ("print(self.__dict__['model'], self.__dict__.get('sched'))",),
    "others' names": ('for k in ("ema", "sched"): state[k] = getattr(self, k).state_dict()',),
    "others' names, by a variable": (
        'parts = ("ema", "sched")',
        "state.update({k: getattr(self, k).state_dict() for k in parts})",
    ),
    "other ends": ('for k in range(2): state[k] = getattr(self, f"ema{k}").state_dict()',),
    "called": ('getattr(self, f"on_{path}")()',),
    "looked at by a helper": ("look(self)",),
}
LOOK = """
def look(t):
    for k, v in vars(t).items():
        print(k, type(v))
"""


@pytest.mark.parametrize("more", LOOKED_AT.values(), ids=LOOKED_AT)
def test_what_only_looks_at_the_attributes_saves_none(more: tuple[str, ...]) -> None:
    assert len(found(saving(*more) + LOOK)) == 1


HELPER = """
import torch
def {name}(t, path):
    state = {{"model": t.model.state_dict(), "opt": t.opt.state_dict()}}
    {more}
    torch.save(state, path)
"""


@pytest.mark.parametrize("name", ["save_ckpt", "write"])
@pytest.mark.parametrize("how", ["self", "self, path=path", "path=path, t=self"])
def test_a_function_that_is_given_the_trainer_saves_its_states(name: str, how: str) -> None:
    call = f"\n    def save(self, path):\n        {name}({how})\n"
    text = HELPER.format(name=name, more="pass") + trainer(call)
    (only,) = found(text)
    assert text[: only.start].endswith('"opt": ')
    assert only.withheld is not None
    assert "gets the object that holds the scaler" in only.withheld
    for more in ('state["s"] = t.s.state_dict()', "state.update(t.__dict__)", "part(state, t)"):
        parts = "def part(state, trainer):\n    state['s'] = trainer.s.state_dict()\n"
        assert [each.message for each in found(HELPER.format(name=name, more=more) + parts + trainer(call))] == (
            ["the scaler's state is saved but never loaded: a resumed run starts at the initial scale and may skip "
             "steps; load the scaler's state after the optimizer's"] if "state_dict" in more else []
        )  # fmt: skip


def test_a_function_of_another_file_that_is_given_the_trainer(tmp_path: Path) -> None:
    call = "\n    def save(self, path):\n        save_ckpt(self, path)\n"
    text = ("import torch\nfrom saving import save_ckpt\n" + trainer(call)).replace("opt", "optimizer")
    text = text.replace("optimizerim", "optim")
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "train.py").write_text(text)
    for more, wanted in (
        ("pass", ["save_ckpt(self, path)"]),
        ("state.update(vars(t))", []),
        ("torch.save(t, path)", []),
    ):
        helper = HELPER.format(name="save_ckpt", more=more).replace("opt", "optimizer")
        (tmp_path / "saving.py").write_text(helper)
        look_again()
        assert [text[each.start : each.end] for each in found(text, str(tmp_path / "train.py"))] == wanted
