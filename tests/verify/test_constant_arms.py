"""Arms that the file's own constants leave dead, and optimizers of the file: neither keeps a verdict from a step."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from amplint.verify.steps.judge import RIGHT, UNKNOWN, WRONG
from tests.interpreting import Ran, interpret

HEAD = """
import torch
from dataclasses import dataclass
from torch import nn

"""
STEP = """
def train(model, loader, optimizer, scaler, config):
    for i, (x, y) in enumerate(loader):
        with torch.autocast("cuda", dtype=torch.float16):
            loss = nn.functional.mse_loss(model(x), y)
        BODY
        optimizer.zero_grad()
"""
SCALED = "scaler.scale(loss).backward()\nscaler.unscale_(optimizer)\n{}scaler.step(optimizer)\nscaler.update()"
CLIP = "    torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)\n"
EITHER = (
    "if config.amp:\n    scaler.scale(loss).backward()\n    scaler.step(optimizer)\n    scaler.update()\n"
    "else:\n    loss.backward()\n    optimizer.step()"
)
CONFIG = "@dataclass\nclass Config:\n    amp: bool = True  # mixed precision\n\n"
MAIN = "\ndef main(model, loader, optimizer, scaler):\n    train(model, loader, optimizer, scaler, Config())\n"


def ran(body: str, before: str = "", after: str = "") -> Ran:
    (found,) = interpret(HEAD + before + STEP.replace("BODY", body.replace("\n", "\n        ")) + after)
    return found


@pytest.mark.parametrize("test", ["CLIP > 0.", "CLIP", "CLIP != 0", "not CLIP == 0."])
def test_a_clip_that_a_constant_switches_off(test: str) -> None:
    assert ran(SCALED.format(f"if {test}:\n{CLIP}"), "CLIP = 0.\n").judged.state == RIGHT


def test_what_is_wrong_next_to_a_dead_clip_shows() -> None:
    body = (
        "loss.backward()\nif CLIP > 0:\n" + CLIP + "scaler.unscale_(optimizer)\nscaler.step(optimizer)\nscaler.update()"
    )
    assert ran(body, "CLIP = 0.\n").judged.state == WRONG


def test_a_variable_that_is_set_twice_is_no_constant() -> None:
    assert ran(SCALED.format(f"if CLIP > 0:\n{CLIP}"), "CLIP = 1.0\nCLIP = 0.\n").judged.state == UNKNOWN


@pytest.mark.parametrize("declared", ["amp: bool = True  # mixed precision", "amp = True"])
def test_an_arm_that_a_setting_of_the_file_switches_off(declared: str) -> None:
    config = CONFIG.replace("amp: bool = True  # mixed precision", declared)
    assert ran(EITHER, config, MAIN).judged.state == RIGHT


def test_a_setting_that_the_command_line_sets_is_no_constant() -> None:
    given = MAIN.replace("Config())", "config)").replace(
        "    train(", "    config = Config()\n    config.amp = True\n    train("
    )
    assert ran(EITHER, CONFIG, given).judged.state == UNKNOWN


def test_a_clip_that_only_later_batches_reach_is_not_dead() -> None:
    found = ran(SCALED.format("if i > 1000:\n" + CLIP.replace("CLIP", "1.0")))
    assert list(found.judged.paths) == ["", "i starts at 1000"]


NESTED = "CFG = {'TRAIN': {'CLIP_GRAD': None, 'STEPS': 2}, 'AMP_LEVEL': 'O1'}\n"
DICT_CLIP = SCALED.format("if config['TRAIN']['CLIP_GRAD']:\n" + CLIP.replace("CLIP)", "1.0)"))
DICT_EITHER = EITHER.replace("config.amp", "config['AMP_LEVEL'] != 'O0'")
BY_DICT = MAIN.replace("Config()", "CFG")
BY_PROGRAM = """
from library import model, loader

optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    train(model, loader, optimizer, torch.amp.GradScaler("cuda"), CFG)
"""


@pytest.mark.parametrize("body", [DICT_CLIP, DICT_EITHER])
def test_an_arm_that_an_entry_of_a_dict_of_the_file_switches_off(body: str) -> None:
    assert ran(body, NESTED, BY_DICT).judged.state == RIGHT
    (found,) = interpret(HEAD + NESTED + STEP.replace("BODY", body.replace("\n", "\n        ")) + BY_PROGRAM)
    assert found.judged.state == RIGHT
    assert ran(body.replace("config[", "CFG["), NESTED).judged.state == RIGHT


@pytest.mark.parametrize(
    "set_anew",
    [
        "CFG['TRAIN']['CLIP_GRAD'] = given",
        "CFG['TRAIN'].update({'CLIP_GRAD': given})",
        "CFG['TRAIN'].update(CLIP_GRAD=given)",
        "CFG[given] = given",
    ],
)
def test_an_entry_that_something_sets_is_no_constant(set_anew: str) -> None:
    body = DICT_CLIP.replace("config[", "CFG[")
    found = ran(body, NESTED, f"\ndef prepare(given):\n    {set_anew}\n").judged
    assert (found.state, found.reason.endswith("holds in no run")) == (UNKNOWN, True)


def test_what_is_wrong_next_to_a_dead_entry_shows() -> None:
    body = DICT_CLIP.replace("scaler.step(optimizer)\n", "optimizer.step()\n").replace(
        "scaler.unscale_(optimizer)\n", ""
    )
    assert ran(body.replace("config[", "CFG["), NESTED).judged.state == WRONG


@pytest.mark.parametrize(
    ("imported", "asked"),
    [("from configs import seq as configs", "configs.use_amp"), ("from settings import USE_AMP", "USE_AMP")],
)
def test_a_setting_of_a_file_out_of_sight_is_tried_both_ways(imported: str, asked: str) -> None:
    body = EITHER.replace("config.amp", asked)
    assert ran(body, f"{imported}\n").judged.state == RIGHT
    wrong = body.replace("    optimizer.step()", "    scaler.unscale_(optimizer)\n    optimizer.step()")
    assert ran(wrong, f"{imported}\n").judged.state == WRONG
    turned = body.replace(f"if {asked}", f"if not {asked}").replace("scaler.scale(loss)", "loss")
    assert ran(turned, f"{imported}\n").judged.state != RIGHT


OPTIMIZER = """
class Own(torch.optim.Optimizer):
    def __init__(self, params, lr=0.02):
        super().__init__(params, dict(lr=lr))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.add_(p.grad.sign(), alpha=-group["lr"])


"""
OWN = """
def train(model, loader, scaler):
    optimizer = Own(model.parameters(), lr=0.01)
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = nn.functional.mse_loss(model(x), y)
        scaler.scale(loss).backward()
        UNSCALE
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
"""


def test_a_class_of_the_file_that_is_an_optimizer() -> None:
    (right,) = interpret(HEAD + OPTIMIZER + OWN.replace("UNSCALE", "scaler.unscale_(optimizer)"))
    assert right.judged.state == RIGHT
    assert "Own is a stand-in SGD" in right.runs.notes.values()
    (wrong,) = interpret(HEAD + OPTIMIZER + OWN.replace("UNSCALE", "pass"))
    assert wrong.shown == {"gradient", "update"}


def test_an_optimizer_that_steps_another_is_none_of_these() -> None:
    around = OPTIMIZER.replace("    def __init__", "    def first_step(self):\n        pass\n\n    def __init__")
    (found,) = interpret(HEAD + around + OWN.replace("UNSCALE", "scaler.unscale_(optimizer)"))
    assert found.judged.state == UNKNOWN
