"""What decides whether a line of a step is run, and what is said of lines that no run comes to."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplint.verify.steps.judge import RIGHT, WRONG
from tests.interpreting import Ran, interpret, interpret_file

STEP = """
import torch
from contextlib import nullcontext

FACTORY

def train(model, optimizer, loader, cfg):
    region, scaler = components(cfg)
    for x, y in loader:
        optimizer.zero_grad()
        with region:
            loss = model(x).mean()
        if scaler is not None:
            scaler.scale(loss).backward()
            UNSCALE
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
        else:
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
"""
FACTORIES = [
    """
def components(cfg):
    if not cfg.get("use_amp", False) or cfg.get("device", "cuda") != "cuda":
        return nullcontext(), None
    scaler = torch.amp.GradScaler("cuda")
    return torch.autocast("cuda"), scaler
""",
    """
def components(cfg):
    use_amp = bool(cfg.get("use_amp", False))
    if not use_amp:
        from contextlib import nullcontext
        return nullcontext(), None
    region = torch.autocast("cuda", dtype=torch.float16)
    try:
        scaler = torch.amp.GradScaler("cuda")
    except TypeError:
        scaler = torch.amp.GradScaler()
    return region, scaler
""",
    """
def components(cfg):
    return torch.autocast("cuda", enabled=cfg.amp), make_scaler(cfg)

def make_scaler(cfg):
    if not cfg.amp:
        return
    return torch.amp.GradScaler("cuda")
""",
    """
def components(cfg):
    if cfg.amp:
        return torch.autocast("cuda"), torch.amp.GradScaler("cuda")
    return nullcontext(), None
""",
]


def ran(text: str) -> Ran:
    (found,) = interpret(text)
    return found


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("unscale", "state"), [("scaler.unscale_(optimizer)", RIGHT), ("pass", WRONG)])
@pytest.mark.parametrize("factory", FACTORIES)
def test_both_arms_of_a_factory_are_run(factory: str, unscale: str, state: str) -> None:
    found = ran(STEP.replace("FACTORY", factory).replace("UNSCALE", unscale))
    assert (found.judged.state, found.judged.reason) == (state, "")
    assert {bool(each.observed.enabled) for each in found.runs.paths} == {True, False}


def test_what_keeps_a_line_from_being_reached_is_said() -> None:
    unscale = "scaler.unscale_(optimizer)\n            if region is None:\n                optimizer.step()"
    text = STEP.replace("FACTORY", FACTORIES[3]).replace("UNSCALE", unscale)
    row = text[: text.index("optimizer.step()")].count("\n") + 1
    assert ran(text).judged.reason == f"line {row} is not reached: region is None holds in no run"


MAIN = """
import torch

def epoch(loader):
    for x, y in loader:
        optimizer.zero_grad()
        with REGION:
            loss = model(x).mean()
        scaler.scale(loss).backward()
        UNSCALE
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()

GUARD:
    args = parse()
    model = make(args)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    region = torch.autocast("cuda")
    for each in range(0, args.epochs):
        epoch(loader(args))
"""


@pytest.mark.parametrize(("unscale", "state"), [("scaler.unscale_(optimizer)", RIGHT), ("pass", WRONG)])
@pytest.mark.parametrize(
    "guard", ['if __name__ == "__main__"', 'if "__main__" == __name__', 'if __name__ in ("__main__",)']
)
def test_a_file_is_run_as_a_program(guard: str, unscale: str, state: str) -> None:
    text = MAIN.replace("GUARD", guard).replace("UNSCALE", unscale)
    for region, name in (("region", "<module>"), ('torch.autocast("cuda")', "epoch")):
        found = ran(
            text.replace("REGION", region).replace(
                "region = torch", "pass  # torch" if name == "epoch" else "region = torch"
            )
        )
        assert (found.step.name, found.judged.state) == (name, state)


def test_a_file_that_is_imported_is_not(tmp_path: Path) -> None:
    other = "import torch\n\nscaler = torch.amp.GradScaler('cuda')\nif __name__ == '__main__':\n    scaler = None\n"
    (tmp_path / "other.py").write_text(other)
    text = MAIN.replace("GUARD", "if True").replace("UNSCALE", "scaler.unscale_(optimizer)").replace("REGION", "region")
    text = text.replace('    scaler = torch.amp.GradScaler("cuda")\n', "").replace(
        "import torch", "import torch\nfrom other import scaler"
    )
    (tmp_path / "train.py").write_text(text)
    (found,) = interpret_file(tmp_path / "train.py")
    assert (found.judged.state, found.judged.reason) == (RIGHT, "")


GIVEN = """
import torch

class Amp:
    def __init__(self):
        self.scaler = torch.amp.GradScaler("cuda")

    def step(self, x, model, optimizer, zero_grad_first=True):
        if zero_grad_first:
            optimizer.zero_grad()
        with torch.autocast("cuda"):
            loss = model(x).mean()
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        self.scaler.step(optimizer)
        self.scaler.update()
        AFTER
"""
KEPT = "if self.scaler.get_scale() >= 1.0:\n            optimizer.zero_grad(set_to_none=True)"


def test_who_calls_a_step_that_is_told_not_to_clear_does_so() -> None:
    assert ran(GIVEN.replace("AFTER", "pass")).judged.state == RIGHT
    assert ran(GIVEN.replace("AFTER", "optimizer.zero_grad()")).judged.state == RIGHT
    one = GIVEN.replace("if zero_grad_first:", "if self.cfg.clear:").replace("AFTER", "return loss")
    assert ran(one).judged.state == RIGHT


def test_a_step_that_clears_only_what_was_not_skipped_leaves_the_overflow() -> None:
    text = GIVEN.replace("if zero_grad_first:\n            optimizer.zero_grad()", "before = self.scaler.get_scale()")
    found = ran(text.replace("AFTER", "if self.scaler.get_scale() >= before:\n            optimizer.zero_grad()"))
    assert found.shown == {"skips"}


ARMS = """
import torch

def evaluate(model, loader, args):
    found = {}
    for x, y in loader:
        total = model(x).sum().item()
        if args.kind == "one":
            found["loss"] = total
            return found
        elif args.kind == "two":
            found["loss"] = total / 2
            return found

def log(values):
    for name, value in values.items():
        print(name, value)

def train(model, loader, optimizer, scaler, args):
    for epoch in range(3):
        for x, y in loader:
            with torch.autocast("cuda", dtype=torch.float16):
                loss = torch.nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            UNSCALE
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
        log(evaluate(model, loader, args))
"""


def test_a_value_that_each_arm_returns() -> None:
    (right,) = interpret(ARMS.replace("UNSCALE", "scaler.unscale_(optimizer)"))
    assert (right.judged.state, right.judged.reason) == (RIGHT, "")
    (wrong,) = interpret(ARMS.replace("UNSCALE", "pass"))
    assert wrong.judged.state == WRONG
