"""AMP217: half models whose dtype stands in a dict, that another model keeps, or that may get adapters."""

from __future__ import annotations

import pytest

from amplint import check
from amplint.base.findings import Confidence

LOADED = """\
import torch
from transformers import AutoModelForCausalLM


def main(loader, config):
    OPTIONS
    policy = AutoModelForCausalLM.from_pretrained("small", **options)
    optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-5)
    for batch in loader:
        policy(**batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
"""
CHOSEN = "options = {'dtype': torch.bfloat16 if config.bf16 else torch.float32}"


def found(text: str) -> list[tuple[str, Confidence]]:
    return [
        (each.message.partition(" the optimizer")[0], each.confidence)
        for each in check(text, "train.py")
        if each.code == "AMP217"
    ]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("options = {'torch_dtype': torch.bfloat16}", "this cast makes"),
        ("options = dict(dtype=torch.bfloat16, device_map='auto')", "this cast makes"),
        ("options = {'dtype': torch.bfloat16}\n    options['device_map'] = 'auto'", "this cast makes"),
        (CHOSEN, "this cast can make"),
        ("options = {}\n    if config.bf16:\n        options['torch_dtype'] = torch.bfloat16", "this cast can make"),
        (f"{CHOSEN}\n    options.pop('device_map', None)", "this cast can make"),
    ],
)
def test_a_dtype_in_a_dict(options: str, said: str) -> None:
    assert found(LOADED.replace("OPTIONS", options)) == [(said, Confidence.LIKELY)]


@pytest.mark.parametrize(
    "options",
    [
        "options = {'torch_dtype': torch.float32}",
        "options = {'device_map': 'auto'}",
        "options = {'torch_dtype': torch.bfloat16}\n    options.update(config.more)",
        "options = {'torch_dtype': torch.bfloat16}\n    options[config.name] = torch.float32",
        "options = {'torch_dtype': torch.bfloat16, **config.more}",
        "options = config.options",
    ],
)
def test_a_dict_without_a_half_dtype_in_sight(options: str) -> None:
    assert not found(LOADED.replace("OPTIONS", options))


KEPT = """\
import torch
from torch import nn
from transformers import AutoModel


class Policy(nn.Module):
    def __init__(self, trunk):
        super().__init__()
        self.trunk = TRUNK
        self.head = nn.Linear(8, 2)
        FROZEN

    def forward(self, batch):
        FORWARD


def main(loader):
    trunk = AutoModel.from_pretrained("small", torch_dtype=torch.bfloat16)
    policy = Policy(trunk).cuda()
    MORE
    optimizer = torch.optim.AdamW(PARAMS, lr=1e-5)
    for batch in loader:
        policy(batch).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
"""
PARTS = {
    "TRUNK": "trunk",
    "FROZEN": "pass",
    "MORE": "pass",
    "PARAMS": "policy.parameters()",
    "FORWARD": "return self.head(self.trunk(batch).float())",
}
ASKED = "with torch.no_grad():\n            body = self.trunk.BODY(batch)\n        return self.head(body)"
LOAD = 'AutoModel.from_pretrained("small", torch_dtype=torch.bfloat16)'


def kept(**parts: str) -> list[tuple[str, Confidence]]:
    text = KEPT
    for part, written in PARTS.items():
        text = text.replace(part, parts.get(part, written))
    return found(text)


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"PARAMS": "[p for p in policy.parameters() if p.requires_grad]"},
        {"TRUNK": LOAD},
        {"MORE": "policy.trunk.requires_grad_(True)"},
        {"MORE": "policy.eval()"},
        {"FORWARD": ASKED.replace("with torch.no_grad()", "if batch is not None").replace(".BODY", "")},
    ],
)
def test_a_half_model_that_another_keeps(parts: dict[str, str]) -> None:
    assert kept(**parts) == [("this cast makes", Confidence.LIKELY)]


@pytest.mark.parametrize(
    "parts",
    [
        {"TRUNK": "trunk.float()"},
        {"FROZEN": "self.trunk.requires_grad_(False)"},
        {"FROZEN": "for p in self.trunk.parameters():\n            p.requires_grad = False"},
        {"MORE": "policy.float()"},
        {"MORE": "policy.requires_grad_(False)"},
        {"MORE": "trunk.requires_grad_(False)"},
        {"PARAMS": "policy.head.parameters()"},
        {"MORE": "policy.freeze_trunk()"},
        {"FROZEN": "self.trunk.eval()"},
        {"FORWARD": ASKED.replace(".BODY", "")},
        {"FORWARD": ASKED.replace("BODY", "encode")},
        {"TRUNK": LOAD, "FORWARD": ASKED.replace(".BODY", "")},
    ],
)
def test_parameters_of_what_keeps_it_that_are_not_half(parts: dict[str, str]) -> None:
    assert not kept(**parts)


ADAPTED = """\
import os

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM


def main(loader, config):
    model = AutoModelForCausalLM.from_pretrained("small", torch_dtype=torch.bfloat16)
    WHEN
        model = get_peft_model(model, LoraConfig(r=8))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    for batch in loader:
        model(**batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    ("when", "is_said"),
    [
        ("if config.use_lora:", True),
        ('if config["regime"] in ("lora", "qlora"):', True),
        ('if config.get("use_lora", True):', False),
        ('if os.environ.get("METHOD", "lora") == "lora":', False),
        ('if os.environ.get("METHOD", "full") == "lora":', True),
        ('if os.environ.get("METHOD", "lora") in ("lora", "qlora"):', False),
        ('if os.environ.get("METHOD", "full") in ("lora", "qlora"):', True),
        ('if os.environ.get("LORA", "yes") != "no":', False),
        ("if config.train:", False),
        ("with config.lora():", False),
    ],
)
def test_adapters_that_an_option_without_a_default_adds(when: str, is_said: bool) -> None:
    expected = [("without adapters, this cast makes", Confidence.LIKELY)]
    assert found(ADAPTED.replace("WHEN", when)) == (expected if is_said else [])


TWO_DICTS = """\
import torch
from transformers import AutoModelForCausalLM


def evaluate(name):
    options = {"device_map": "auto"}
    options["torch_dtype"] = torch.float16
    return AutoModelForCausalLM.from_pretrained(name, **options)


def build(name, **kwargs):
    return AutoModelForCausalLM.from_pretrained(name, **kwargs)


def check(name):
    kwargs = {}
    kwargs["torch_dtype"] = torch.float16
    return AutoModelForCausalLM.from_pretrained(name, **kwargs)


def main(loader, name):
    options = {"low_cpu_mem_usage": True}
    PUT
    model = MODEL
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    for batch in loader:
        model(**batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
"""
LOADS = "AutoModelForCausalLM.from_pretrained(name, **options)"


@pytest.mark.parametrize(
    ("put", "model", "is_found"),
    [
        ("options['torch_dtype'] = torch.float16", LOADS, True),
        ("pass", "evaluate(name)", True),
        ("pass", LOADS, False),
        ("pass", "build(name)", False),
    ],
)
def test_a_dict_of_the_same_name_in_another_function(put: str, model: str, is_found: bool) -> None:
    text = TWO_DICTS.replace("PUT", put).replace("MODEL", model)
    assert bool(found(text)) is is_found


IN_CLASSES = """\
import torch
from transformers import AutoModelForCausalLM


class Teacher:
    def __init__(self):
        self.options = {}
        TEACHER

    def load(self, name):
        return AutoModelForCausalLM.from_pretrained(name, **self.options)


class Student:
    def __init__(self, name, loader):
        self.options = {}
        STUDENT
        model = AutoModelForCausalLM.from_pretrained(name, **self.options)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
        for batch in loader:
            model(**batch).loss.backward()
            optimizer.step()
            optimizer.zero_grad()
"""


@pytest.mark.parametrize(("put_in", "is_found"), [("STUDENT", True), ("TEACHER", False)])
def test_a_dict_of_the_same_name_in_another_class(put_in: str, is_found: bool) -> None:
    text = IN_CLASSES.replace(put_in, "self.options['torch_dtype'] = torch.float16")
    assert bool(found(text.replace("TEACHER", "pass").replace("STUDENT", "pass"))) is is_found


LOOKS = "\n    with torch.no_grad():\n        print(trunk(loader[0]).mean())"


@pytest.mark.parametrize(
    ("parts", "is_found"),
    [
        ({"MORE": f"pass{LOOKS}"}, True),
        ({"MORE": f"pass{LOOKS}".replace("trunk(", "trunk.forward(")}, True),
        ({"MORE": f"pass{LOOKS}", "FORWARD": ASKED.replace(".BODY", "")}, False),
        ({"MORE": f"pass{LOOKS}", "FORWARD": ASKED.replace("BODY", "encode")}, False),
        ({"MORE": f"pass{LOOKS}", "FROZEN": "self.trunk.eval()"}, False),
    ],
)
def test_a_run_without_gradients_beside_the_training(parts: dict[str, str], is_found: bool) -> None:
    assert bool(kept(**parts)) is is_found
