"""AMP413 where what happens to the scaler's state is told by all files of a program."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplint import check
from amplint.base.findings import Confidence, Finding
from amplint.config.settings import Settings


def found(folder: Path, files: dict[str, str], path: str = "main.py") -> list[Finding]:
    (folder / "pyproject.toml").touch()
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    settings = Settings(frozenset({"AMP413"}), isolated=True, suspicions=True)
    return check(files[path], str(folder / path), settings)


MANAGER = """\
import torch
import stages
from files import read, write


class Manager:
    def __init__(self, args, model):
        self.model = model
        self.amp_scaler = torch.amp.GradScaler("cuda") if args.half else None
        kept = None
        if args.resume:
            epoch, kept = read(args.resume, model)
        self.stages = [stages.build(model, args.name, scaler=self.amp_scaler)]
        if kept is not None:
            self.stages[0].optimizer.load_state_dict(kept)

    def fit(self, loader):
        for epoch in range(10):
            self.stages[0].run(loader)
            write("last.pt", epoch, self.model, self.stages[0].optimizer)
"""
FILES = """\
import torch


def write(path, epoch, model, optimizer):
    torch.save({"epoch": epoch, "model": model.state_dict(), "optim": optimizer.state_dict()}, path)


def read(path, model):
    state = torch.load(path)
    model.load_state_dict(state["model"])
    return state["epoch"], state["optim"]
"""
STAGES = """\
import torch

KINDS = {}


def build(model, name, **more):
    return KINDS[name](model, **more)


class Plain:
    def __init__(self, model, scaler=None):
        self.model, self.scaler = model, scaler
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def run(self, loader):
        for batch in loader:
            with torch.autocast("cuda"):
                loss = self.model(batch)
            self.scaler.scale(loss).backward()
            self.scaler.step(self.optimizer)
            self.scaler.update()
            self.optimizer.zero_grad()


KINDS["plain"] = Plain
"""


def test_a_scaler_that_others_step_with_and_nobody_saves(tmp_path: Path) -> None:
    (one,) = found(tmp_path, {"main.py": MANAGER, "files.py": FILES, "stages.py": STAGES})
    assert one.confidence is Confidence.LIKELY
    assert one.fix is None
    assert MANAGER[one.start :].startswith("write(")


SAVES = '\n    def parts(self):\n        return {"amp": self.scaler.state_dict()}\n\n\nKINDS'
SAVES_ALL = "\n    def parts(self):\n        return {k: each.state_dict() for k, each in self.all.items()}\n\n\nKINDS"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("\n\nKINDS", SAVES),
        ("\n\nKINDS", SAVES_ALL),
        ("\n\nKINDS", SAVES.replace("self.scaler.state_dict()", 'getattr(self, "scaler").state_dict()')),
        ("\n\nKINDS", '\n    def save(self):\n        torch.save(self, "all.pt")\n\n\nKINDS'),
        ('autocast("cuda")', 'autocast("cuda", dtype=torch.bfloat16)'),
        ("self.scaler.scale(loss)", "loss"),
    ],
)
def test_another_file_may_save_it_or_has_no_use_for_it(tmp_path: Path, old: str, new: str) -> None:
    text = STAGES.replace(old, new, 1) if old != "\n\nKINDS" else new.join(STAGES.rsplit(old, 1))
    assert text != STAGES
    assert not found(tmp_path, {"main.py": MANAGER, "files.py": FILES, "stages.py": text})


def test_a_file_out_of_sight_may_save_it(tmp_path: Path) -> None:
    assert not found(tmp_path, {"main.py": MANAGER, "stages.py": STAGES})


SETUP = """\
import torch


class Setup:
    def make_scaler(self, trainer):
        trainer.scaler = torch.amp.GradScaler("cuda") if trainer.use_amp else None

    def resume(self, trainer):
        from files import read

        trainer.epoch = read(trainer.path, trainer.model, optimizer=trainer.optimizer)
"""
READ = """\
import torch


def read(path, model, optimizer=None):
    state = torch.load(path)
    model.load_state_dict(state["model"])
    if optimizer is not None:
        optimizer.load_state_dict(state["optimizer"])
    return state["epoch"]
"""
TRAINER = """\
import torch
from main import Setup


class Trainer:
    def __init__(self, model, path, use_amp):
        self.model, self.path, self.use_amp = model, path, use_amp
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        Setup().make_scaler(self)
        Setup().resume(self)

    def fit(self, loader):
        for batch in loader:
            with torch.autocast("cuda"):
                loss = self.model(batch)
            self.scaler.scale(loss).backward()
            self.scaler.step(self.optimizer)
            self.scaler.update()
        content = {"epoch": 1, "model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}
        torch.save(content, self.path)
"""


@pytest.mark.parametrize(
    ("old", "new", "count"),
    [
        ("1, ", "1, ", 1),
        ("1, ", '1, "scaler": self.scaler.state_dict(), ', 0),
        ("1, ", '1, "scale": self.scaler.get_scale(), ', 0),
    ],
)
def test_what_sets_a_trainer_up_restores_the_optimizer_alone(tmp_path: Path, old: str, new: str, count: int) -> None:
    trainer = TRAINER.replace(old, new)
    told = found(tmp_path, {"main.py": SETUP, "files.py": READ, "trainer.py": trainer})
    assert len(told) == count
    for each in told:
        assert each.confidence is Confidence.LIKELY
        assert SETUP[each.start :].startswith("read(")


ENGINE = """\
import torch


def train_one_epoch(model, optimizer, loader, scaler=None):
    for batch in loader:
        with torch.autocast("cuda", enabled=scaler is not None):
            loss = model(batch)
        loss.backward()
        optimizer.step()
"""
SCRIPT = """\
import torch
from engine import train_one_epoch


def main(args, model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda") if args.amp else None
    if args.resume:
        state = torch.load(args.resume, weights_only=False)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        if scaler:
            scaler.load_state_dict(state["scaler"])
    for epoch in range(10):
        train_one_epoch(model, optimizer, loader)
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
        torch.save(state, "last.pt")
"""


def test_a_scaler_that_nothing_uses_is_loaded_under_a_key_that_is_missing(tmp_path: Path) -> None:
    (one,) = found(tmp_path, {"main.py": SCRIPT, "engine.py": ENGINE})
    assert one.confidence is Confidence.LIKELY
    assert 'has no "scaler"' in one.message
    assert SCRIPT[one.start :].startswith("scaler.load_state_dict(")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("if scaler:", 'if scaler and "scaler" in state:'),
        ("if scaler:", 'assert "scaler" in state\n        if scaler:'),
        ('state["scaler"])', 'state["scaler"]) if "scaler" in state else None'),
        ('state["scaler"]', 'state.get("scaler")'),
        ("        torch.save", '        state["scaler"] = scaler.state_dict()\n        torch.save'),
        ("        torch.save", "        state.update(args.more)\n        torch.save"),
        ("        torch.save", "        state[args.name] = scaler\n        torch.save"),
        ("        state = {", "        state = {**args.more, "),
        ('optimizer.load_state_dict(state["optimizer"])', 'optimizer.load_state_dict(state["optim"])'),
        (
            "        if scaler:\n            scaler.load_state_dict",
            "        try:\n            scaler.load_state_dict",
        ),
    ],
)
def test_the_key_is_asked_for_or_may_be_there(tmp_path: Path, old: str, new: str) -> None:
    text = SCRIPT.replace(old, new)
    if "try:" in new:
        text = text.replace('state["scaler"])', 'state["scaler"])\n        except KeyError:\n            pass')
    assert text != SCRIPT
    assert not found(tmp_path, {"main.py": text, "engine.py": ENGINE})


def test_another_file_may_write_the_key(tmp_path: Path) -> None:
    engine = ENGINE.replace("optimizer.step()", 'optimizer.kept["scaler"] = scaler')
    assert not found(tmp_path, {"main.py": SCRIPT, "engine.py": engine})


LIBRARY = """\
import torch
from timm.utils import NativeScaler
from engine import train_one_epoch


def main(args, model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss_scaler = NativeScaler() if args.amp else None
    if args.resume:
        state = torch.load(args.resume)
        optimizer.load_state_dict(state["optimizer"])
        if "scaler" in state:
            loss_scaler.load_state_dict(state["scaler"])
    for epoch in range(10):
        train_one_epoch(model, optimizer, loader, loss_scaler)
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        if loss_scaler is not None:
            state["scalar"] = loss_scaler.state_dict()
        torch.save(state, "last.pt")
"""


def test_a_librarys_scaler_is_loaded_under_another_key(tmp_path: Path) -> None:
    engine = {"engine.py": ENGINE}
    (one,) = found(tmp_path, {"main.py": LIBRARY, **engine})
    assert one.confidence is Confidence.LIKELY
    assert 'saved as "scalar"' in one.message
    assert not found(tmp_path, {"main.py": LIBRARY.replace("scalar", "scaler"), **engine})
    assert not found(tmp_path, {"main.py": LIBRARY.replace("timm.utils", "elsewhere"), **engine})


OPTIMIZER = """\
import torch


class Steps:
    def __init__(self, params):
        self._optimizer = torch.optim.SGD(params, lr=0.1)
        self.scaler = torch.amp.GradScaler("cuda")

    def step(self, loss):
        self.scaler.scale(loss).backward()
        self.scaler.step(self._optimizer)
        self.scaler.update()

    def state_dict(self):
        return self._optimizer.state_dict()

    def load_state_dict(self, state):
        self._optimizer.load_state_dict(state)
"""
LISTED = (
    "import glob\nfrom os.path import basename, dirname\n__all__ = [basename(each)[:-3] for each in glob.glob(dirname("
    '__file__) + "/*.py")]\n'
)


@pytest.mark.parametrize(("package", "count"), [(LISTED, 1), ('"""Nets."""\n', 0)])
def test_a_package_that_lists_its_modules_imports_them(tmp_path: Path, package: str, count: int) -> None:
    files = {
        "main.py": OPTIMIZER,
        "run.py": "from main import Steps\nfrom nets import *\n",
        "nets/__init__.py": package,
        "nets/plain.py": 'import torch\n\n\ndef run(net):\n    with torch.autocast("cuda"):\n        return net(1)\n',
    }
    assert len(found(tmp_path, files)) == count


WRAPPER = """\
import torch


class LossScaler:
    def __init__(self):
        self._scaler = torch.amp.GradScaler("cuda")

    def __call__(self, loss, optimizer):
        self._scaler.scale(loss).backward()
        self._scaler.step(optimizer)
        self._scaler.update()

    def state_dict(self):
        return self._scaler.state_dict()

    def load_state_dict(self, state_dict):
        self._scaler.load_state_dict(state_dict)


def save(path, model, optimizer, loss_scaler):
    torch.save({"model": model.state_dict(), "optim": optimizer.state_dict(), "scaler": loss_scaler.state_dict()}, path)


def load(path, model, optimizer, loss_scaler):
    state = torch.load(path)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optim"])
"""
WRAPPED = """\
import torch
import misc


def main(model, optimizer, loader):
    loss_scaler = misc.LossScaler()
    misc.load("last.pt", model, optimizer, loss_scaler)
    for x in loader:
        with torch.autocast("cuda"):
            loss = model(x).sum()
        loss_scaler(loss, optimizer)
        optimizer.zero_grad()
    misc.save("last.pt", model, optimizer, loss_scaler)
"""
RESUMES = '    optimizer.load_state_dict(state["optim"])\n'
LOADED = '    loss_scaler.load_state_dict(state["scaler"])\n'
BY_LOOP = "    for name, each in [('scaler', loss_scaler)]:\n        each.load_state_dict(state[name])\n"
ELSEWHERE = WRAPPED + '    loss_scaler.load_state_dict(torch.load("last.pt")["scaler"])\n'


@pytest.mark.parametrize(
    ("wrapper", "main", "count"),
    [
        pytest.param(WRAPPER, WRAPPED, 1, id="never loaded"),
        pytest.param(WRAPPER + LOADED, WRAPPED, 0, id="loaded"),
        pytest.param(WRAPPER + BY_LOOP, WRAPPED, 0, id="by a loop"),
        pytest.param(WRAPPER, ELSEWHERE, 0, id="in another file"),
        pytest.param(
            WRAPPER.replace('    optimizer.load_state_dict(state["optim"])\n', ""), WRAPPED, 0, id="no resume"
        ),
    ],
)
def test_the_state_of_a_wrapper_that_is_saved_and_never_loaded(
    tmp_path: Path, wrapper: str, main: str, count: int
) -> None:
    findings = found(tmp_path, {"misc.py": wrapper, "main.py": main}, "misc.py")
    assert [each.confidence for each in findings] == [Confidence.LIKELY] * count


BYOL = """\
import torch
from parts import NativeScaler


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(4, 4)
        self.scaler = NativeScaler()


def train(loader, model, optimizer):
    for batch in loader:
        with torch.autocast("cuda"):
            loss = model.net(batch).mean()
        optimizer.zero_grad()
        model.scaler(loss, optimizer=optimizer)
"""
PARTS = """\
import torch


class NativeScaler:
    state_dict_key = "amp_scaler"

    def __init__(self):
        self._scaler = torch.amp.GradScaler("cuda")

    def __call__(self, loss, optimizer):
        self._scaler.scale(loss).backward()
        self._scaler.step(optimizer)
        self._scaler.update()

    def state_dict(self):
        return self._scaler.state_dict()

    def load_state_dict(self, state):
        self._scaler.load_state_dict(state)


def save_model(model, optimizer, scaler):
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "scaler": scaler.state_dict()}, "x")
"""
PROGRAM = """\
import torch
from byol import Model, train


def save_model(state):
    torch.save(state, "last.pt")


def main(args, loader):
    model = Model()
    with torch.no_grad(), torch.autocast("cuda"):
        print(model.net(next(loader)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    if args.resume:
        state = torch.load("last.pt")
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optim"])
    for epoch in range(10):
        train(loader, model, optimizer)
        save_model({"model": model.state_dict(), "optim": optimizer.state_dict()})
"""


@pytest.mark.parametrize(
    ("file", "old", "new", "count"),
    [
        ("main.py", "10", "10", 1),
        # The scaler's state is saved by the function that another file has for it, or by hand.
        (
            "main.py",
            "        save_model(",
            "        parts.save_model(model, optimizer, model.scaler)\n        save_model(",
            0,
        ),
        ("main.py", '"optim": ', '"scale": model.scaler.state_dict(), "optim": ', 0),
        # Nothing makes the scaler, or scales with it.
        ("byol.py", "self.scaler = NativeScaler()", "self.scaler = None", 0),
        # Nothing loads the optimizer's state.
        ("main.py", 'optimizer.load_state_dict(state["optim"])', "pass", 0),
        # It is saved once, as in a test.
        ("main.py", "for epoch in range(10)", "if args.train", 0),
    ],
)
def test_a_scaler_that_the_model_keeps(tmp_path: Path, file: str, old: str, new: str, count: int) -> None:
    files = {"main.py": PROGRAM, "byol.py": BYOL, "parts.py": PARTS}
    assert old in files[file]
    files[file] = files[file].replace(old, new)
    if "parts." in new:
        files[file] = "import parts\n" + files[file]
    told = found(tmp_path, files)
    assert len(told) == count
    for each in told:
        assert each.confidence is Confidence.LIKELY
        assert files["main.py"][each.start :].startswith("optimizer.state_dict()")
