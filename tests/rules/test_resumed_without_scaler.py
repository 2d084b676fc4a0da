"""AMP413: forms in which a run is resumed without its scaler's state, each with one in which it isn't."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplint import check
from amplint.base.findings import Confidence, Finding
from amplint.config.settings import Settings


def found(text: str, path: str = "program.py") -> list[Finding]:
    return check(text, path, Settings(frozenset({"AMP413"}), isolated=True, suspicions=True))


METHODS = """\
import torch


class Trainer:
    def __init__(self, model):
        self.model = model
        self.scaler = torch.amp.GradScaler("cuda")

    def fit(self, loader, path):
        optimizer = self.model.configure_optimizers()
        ema = torch.optim.SGD(self.model.ema.parameters(), lr=0.1)
        state = torch.load(path)
        self.model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        self.loop(loader, STEPPED)
        torch.save({"model": self.model.state_dict(), "optimizer": optimizer.state_dict()}, path)

    def loop(self, loader, opt):
        for batch in loader:
            self.train_step(batch, opt)

    def train_step(self, batch, optim):
        with torch.autocast("cuda", dtype=torch.float16):
            loss = self.model(batch)
        self.scaler.scale(loss).backward()
        self.scaler.step(optim)
        self.scaler.update()
        optim.zero_grad()
"""


def test_an_optimizer_that_a_method_of_self_is_given_and_steps() -> None:
    (finding,) = found(METHODS.replace("STEPPED", "optimizer"))
    assert finding.confidence is Confidence.CERTAIN
    assert not found(METHODS.replace("STEPPED", "ema"))


PAST = """\
import torch


class Trainer:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.Adam(model.parameters())
        self.scaler = torch.amp.GradScaler("cuda", init_scale=1024.0)

    def fit(self, loader, path):
        state = torch.load(path)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        for batch in loader:
            with torch.autocast("cuda", dtype=torch.float16):
                loss = self.model(batch)
            self.optimizer.zero_grad()
            self.scaler.scale(loss).backward()
            self.optimizer.step()
            UPDATE
        torch.save({"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}, path)
"""


def test_a_scale_that_never_changes_need_not_be_saved() -> None:
    """Without `update()` the optimizer steps past the scaler, which AMP402 reports."""
    assert found(PAST.replace("UPDATE", "self.scaler.update()"))
    assert not found(PAST.replace("UPDATE", "pass"))


SCRIPT = """\
import logging

import torch


def train(model, loader, args):
    optimizer = torch.optim.AdamW(model.parameters())
    scaler = torch.amp.GradScaler("cuda")
    MADE
    if args.resume:
        state = torch.load(args.resume)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        LOADED
    for epoch in range(10):
        for batch in loader:
            optimizer.zero_grad()
            with torch.autocast("cuda", dtype=torch.float16):
                loss = model(batch)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        SAVED
        torch.save(state, "last.pt")
"""


def script(made: str = "pass", loaded: str = "pass", saved: str = "pass") -> list[Finding]:
    return found(SCRIPT.replace("MADE", made).replace("LOADED", loaded).replace("SAVED", saved))


INFO = "info = scaler.state_dict()"
EACH = f"{INFO}\n    for key, value in info.items():\n        "


@pytest.mark.parametrize(
    "made",
    [
        "print(scaler.state_dict())",
        f'{INFO}\n    logging.info("scale %s", info["scale"])',
        f'{INFO}\n    print("growth", str(info.get("growth_interval")))',
        f'{EACH}print(f"{{key}}: {{value}}")',
        'logging.info("%s", {"scale": scaler.state_dict()["scale"]})',
        "before = scaler.state_dict()\n    assert before['scale'] > 0",
    ],
)
def test_a_state_that_is_only_shown_is_not_saved(made: str) -> None:
    (finding,) = script(made)
    assert "not the scaler's" in finding.message


@pytest.mark.parametrize(
    ("made", "saved"),
    [
        (INFO, 'state["scaler"] = info'),
        (INFO, 'state["scale"] = info["scale"]'),
        (INFO, 'state.update({f"scaler_{key}": value for key, value in info.items()})'),
        (f"{EACH}args.kept[key] = value", "pass"),
        ("args.kept = scaler.state_dict", "pass"),
    ],
)
def test_a_state_that_gets_elsewhere_may_be_saved(made: str, saved: str) -> None:
    assert not script(made, 'scaler.load_state_dict(state["scaler"])', saved)


SAVED = 'state["scaler"] = scaler.state_dict()'


@pytest.mark.parametrize(
    "test",
    ["scaler is state.keys()", '"scaler" is state.keys() and state["scaler"]', "scaler is None", "not args and args"],
)
def test_a_load_under_a_test_that_is_never_true(test: str) -> None:
    (finding,) = script(loaded=f'if {test}:\n            scaler.load_state_dict(state["scaler"])', saved=SAVED)
    assert finding.confidence is Confidence.LIKELY
    assert f"`{test}` is never true" in finding.message


@pytest.mark.parametrize(
    "test",
    ['"scaler" in state.keys()', "scaler is not None", "scaler is not state.keys()", 'state.get("scaler")'],
)
def test_a_load_under_another_test(test: str) -> None:
    assert not script(loaded=f'if {test}:\n            scaler.load_state_dict(state["scaler"])', saved=SAVED)


TWO_CHECKPOINTS = """\
import torch


def train(model, optimizer, loader, path, resume):
    scaler = torch.amp.GradScaler("cuda")
    best = 0.0
    if resume:
        state = torch.load(path)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
    for epoch in range(10):
        for x, y in loader:
            optimizer.zero_grad()
            with torch.autocast("cuda", dtype=torch.float16):
                loss = torch.nn.functional.mse_loss(model(x), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}, path)
        if loss < best:
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "best.pt")
"""


def test_a_run_that_a_setting_in_the_file_keeps_from_being_resumed() -> None:
    text = TWO_CHECKPOINTS.replace("optimizer.state_dict()", 'optimizer.state_dict(), "scaler": scaler.state_dict()')
    load = '        if "scaler" in state:\n            scaler.load_state_dict(state["scaler"])\n'
    text = text.replace("    for epoch", f"{load}    for epoch").replace("    best = 0.0", "    resume = None")
    assert not found(text)
    (finding,) = found(text.replace('if "scaler" in state:', "if scaler is None:").replace("    resume = None\n", ""))
    assert "never true" in finding.message


MANAGED = """\
import torch
IMPORTS

class Trainer:
    def __init__(self, model, manager=None):
        self.model = model
        self.optimizer = torch.optim.AdamW(model.parameters())
        self.manager = manager or Manager()
        self.scaler = torch.amp.GradScaler("cuda")
        MADE

    def resume(self, path):
        RESUMED

    def fit(self, loader):
        for epoch in range(10):
            for batch in loader:
                self.optimizer.zero_grad()
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = self.model(batch)
                self.scaler.scale(loss).backward()
                self.scaler.step(self.optimizer)
                self.scaler.update()
            SAVED
"""
MANAGER = """

class Manager:
    def save(self, model, optimizer=None, scaler=None):
        state = {"model": model.state_dict()}
        if optimizer:
            state["optimizer"] = optimizer.state_dict()
        if scaler is not None:
            state["scaler"] = scaler.state_dict()
        torch.save(state, "last.pt")

    def restore(self, path, model, optimizer=None):
        state = torch.load(path)
        model.load_state_dict(state["model"])
        if optimizer:
            optimizer.load_state_dict(state["optimizer"])
"""
SAVE, RESTORE = (
    "self.manager.save(self.model, self.optimizer)",
    "self.manager.restore(path, self.model, self.optimizer)",
)


def managed(saved: str, imports: str = "", made: str = "pass", resumed: str = RESTORE) -> list[Finding]:
    text = MANAGED.replace("IMPORTS", imports).replace("MADE", made).replace("RESUMED", resumed)
    return found(text.replace("SAVED", saved))


@pytest.mark.parametrize("saved", [SAVE, "self.manager.save(model=self.model, optimizer=self.optimizer)"])
def test_a_manager_that_may_be_of_the_class_in_sight(saved: str) -> None:
    (finding,) = managed(saved, MANAGER)
    assert finding.confidence is Confidence.LIKELY


@pytest.mark.parametrize(
    ("saved", "more"),
    [
        ("self.manager.save(self.model)", ""),
        (SAVE, "\n\nclass Other:\n    def save(self, model, optimizer):\n        self.kept = model\n"),
    ],
)
def test_a_manager_that_saves_the_model_alone_or_may_be_of_another_class(saved: str, more: str) -> None:
    assert not managed(saved, MANAGER + more)


@pytest.mark.parametrize("given", ["self.scaler", "scaler=self.scaler"])
def test_a_manager_that_saves_the_scaler_and_may_load_it(given: str) -> None:
    saved, taking = (
        SAVE.replace("optimizer)", f"optimizer, {given})"),
        RESTORE.replace("optimizer)", f"optimizer, {given})"),
    )
    (finding,) = managed(saved, MANAGER)
    assert finding.confidence is Confidence.LIKELY
    assert "saved but never loaded" in finding.message
    loads = "        if scaler is not None:\n            scaler.load_state_dict(state['scaler'])\n"
    takes = MANAGER.replace("path, model, optimizer=None", "path, model, optimizer=None, scaler=None")
    assert managed(saved, takes + loads)
    assert not managed(saved, takes + loads, resumed=taking)


ELSEWHERE = "from tools import Manager, hook, load_checkpoint, save_checkpoint\n"
LOAD = "load_checkpoint(path, self.model, self.optimizer)"


@pytest.mark.parametrize(
    "saved",
    [
        SAVE,
        "self.manager.save_checkpoint(epoch, model=self.model, optimizer=self.optimizer)",
        'self.manager.save({"model": self.model, "optimizer": self.optimizer}, epoch)',
        'to_save = {"net": self.model, "opt": self.optimizer}\n            save_checkpoint(to_save, "last.pt")',
    ],
)
def test_an_object_that_keeps_the_scaler_and_has_others_save(saved: str) -> None:
    (finding,) = managed(saved, ELSEWHERE, resumed=LOAD)
    assert finding.confidence is Confidence.LIKELY
    assert "gets the optimizer but not the scaler" in finding.message


@pytest.mark.parametrize(
    ("saved", "made"),
    [
        ('self.manager.save({"model": self.model, "optimizer": self.optimizer, "scaler": self.scaler})', "pass"),
        ("save_checkpoint(self.model, self.optimizer, self.scaler.state_dict())", "pass"),
        (SAVE, "hook(self)"),
        (SAVE, "manager.trainer = self\n        self.callbacks = [hook(trainer=self)]"),
        ('self.manager.save({"optimizer": self.optimizer}, epoch)', "pass"),
    ],
)
def test_an_object_whose_scaler_others_may_save(saved: str, made: str) -> None:
    assert not managed(saved, ELSEWHERE, made, LOAD)


PACKAGED = """\
import torch

from .checkpoint import save


def train(model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    for epoch in range(10):
        for batch in loader:
            with torch.autocast("cuda", dtype=torch.float16):
                loss = model(batch)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
        save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, f"{epoch}.pt")
"""
CHECKPOINT = """\
import torch


def save(state, path):
    torch.save(state, path)


def restore(path, model, optimizer):
    state = torch.load(path)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
"""


@pytest.mark.parametrize(("passed_on", "confidence"), [("restore, save", "likely"), ("save", "suspicion")])
def test_a_loader_that_nothing_calls_and_its_package_passes_on(tmp_path: Path, passed_on: str, confidence: str) -> None:
    (tmp_path / ".git").mkdir()
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text(f"from .checkpoint import {passed_on}\n")
    (package / "checkpoint.py").write_text(CHECKPOINT)
    (package / "train.py").write_text(PACKAGED)
    (finding,) = found(PACKAGED, str(package / "train.py"))
    assert finding.confidence == confidence


def test_what_is_saved_to_debug_is_not_marked_first() -> None:
    save = "\n\n    def {}(self, path):\n        state = {{'model': self.model.state_dict()}}"
    save += "\n        state['opt'] = self.opt.state_dict()\n        torch.save(state, path)"
    text = METHODS.replace("optimizer = self.model.configure_optimizers()", "optimizer = self.opt")
    text = text.replace("STEPPED", "self.opt").replace('torch.save({"model"', '({"model"').replace("()}, path)", "()})")
    text = text.replace("        optimizer.load", "        self.opt.load")
    for names in (("_save_debug_snapshot", "save"), ("save", "_save_debug_snapshot")):
        both = text.rstrip() + "".join(map(save.format, names)) + "\n"
        (finding,) = found(both)
        assert both[: finding.start].rpartition("def ")[2].startswith("save(")


def test_another_checkpoint_that_lacks_the_same_is_named() -> None:
    (finding,) = found(TWO_CHECKPOINTS)
    assert "but not the scaler's (the same on line 21): a run resumed" in finding.message
    assert finding.location.row == 19
    (alone,) = found(TWO_CHECKPOINTS.replace(', "optimizer": optimizer.state_dict()}, "best.pt"', '}, "best.pt"'))
    assert "the same on" not in alone.message


@pytest.mark.parametrize(
    ("first", "second", "lines"),
    [
        ("True", "rank == 0", [19]),
        ("False", "rank == 0", [21]),
        ("rank == 0 and False", "rank == 0", [21]),
        ("rank == 0 and False", "0", []),
    ],
)
def test_a_save_that_never_runs(first: str, second: str, lines: list[int]) -> None:
    text = f"""\
import torch


def main(model, loader, rank, path):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    state = torch.load(path)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    for epoch in range(9):
        for batch in loader:
            optimizer.zero_grad()
            with torch.autocast("cuda", dtype=torch.float16):
                loss = model(batch)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            if {first}:
                torch.save({{"model": model.state_dict(), "optimizer": optimizer.state_dict(), "by": 1}}, path)
        if {second}:
            torch.save({{"model": model.state_dict(), "optimizer": optimizer.state_dict(), "by": 2}}, path)
"""
    assert [text.count("\n", 0, each.start) + 1 for each in found(text)] == lines


ACCELERATED = """\
import torch
from accelerate import Accelerator


def main(model, loader, path):
    accelerator = Accelerator(mixed_precision="fp16")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    state = torch.load(path)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    for batch in loader:
        optimizer.zero_grad()
        accelerator.backward(model(batch))
        optimizer.step()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
"""


@pytest.mark.parametrize(
    ("old", "new", "count"),
    [
        ("", "", 1),
        ('"fp16"', '"bf16"', 0),
        ('mixed_precision="fp16"', "", 0),
        ('    optimizer.load_state_dict(state["optimizer"])\n', "", 0),
        ("dict()}, path", 'dict(), "scaler": accelerator.scaler.state_dict()}, path', 0),
        ("dict()}, path", 'dict(), "s": getattr(accelerator, "scaler").state_dict()}, path', 0),
        ("    torch.save", "    accelerator.save_state(path)\n    torch.save", 0),
    ],
)
def test_the_scaler_of_accelerate(old: str, new: str, count: int) -> None:
    each = found(ACCELERATED.replace(old, new) if old else ACCELERATED)
    assert [one.confidence for one in each] == [Confidence.LIKELY] * count
