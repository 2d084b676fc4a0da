"""AMP208, AMP217: half models that get adapters only where an option asks for them, and else are trained themselves."""

from __future__ import annotations

import pytest

from amplint import check
from amplint.base.findings import Confidence

TRAINER = """\
import argparse
import torch
from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments


def main(data):
    parser = argparse.ArgumentParser()
    parser.add_argument("--use_lora", OPTION)
    args = parser.parse_args()
    model = AutoModelForCausalLM.from_pretrained("small", torch_dtype=DTYPE)
    PREPARE
    if args.use_lora:
        model = get_peft_model(model, LoraConfig(r=8))
    training = TrainingArguments("out", fp16=True, learning_rate=2e-5)
    trainer = Trainer(model=model, args=training, train_dataset=data)
    trainer.train()
"""
LOOP = """\
import argparse
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM


def with_adapters(model, rank):
    return get_peft_model(model, LoraConfig(r=rank))


def main(loader):
    parser = argparse.ArgumentParser()
    parser.add_argument("--lora_rank", type=int, default=RANK)
    args = parser.parse_args()
    use_lora = args.lora_rank > 0
    model = AutoModelForCausalLM.from_pretrained("small", torch_dtype=torch.bfloat16)
    if use_lora:
        model = with_adapters(model, args.lora_rank)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    for batch in loader:
        model(**batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
"""
ASKED = {"OPTION": 'action="store_true"', "DTYPE": "torch.float16", "PREPARE": "model.train()"}


def found(text: str, **parts: str) -> list[tuple[str, Confidence]]:
    for part, written in parts.items():
        text = text.replace(part, written)
    return [(each.code, each.confidence) for each in check(text, "train.py") if each.code in ("AMP208", "AMP217")]


def test_adapters_on_demand() -> None:
    assert found(TRAINER, **ASKED) == [("AMP208", Confidence.LIKELY)]
    assert found(LOOP, RANK="0") == [("AMP217", Confidence.LIKELY)]


@pytest.mark.parametrize(
    "parts",
    [
        {"OPTION": "type=bool, default=True"},
        {"DTYPE": "torch.float16 if args.use_lora else torch.float32"},
        {"PREPARE": "model = prepare_model_for_kbit_training(model)"},
        {"PREPARE": "model.add_adapter(LoraConfig(r=8))"},
        {"DTYPE": "torch.float16, load_in_4bit=True"},
        {"DTYPE": "torch.float16, quantization_config=args.quantization"},
    ],
)
def test_adapters_that_are_trained(parts: dict[str, str]) -> None:
    assert not found(TRAINER, **{**ASKED, **parts})


@pytest.mark.parametrize("dtype", ["torch.float16, load_in_4bit=False", "torch.float16, quantization_config=None"])
def test_a_model_that_is_not_quantized(dtype: str) -> None:
    assert found(TRAINER, **{**ASKED, "DTYPE": dtype}) == [("AMP208", Confidence.LIKELY)]


def test_adapters_by_default() -> None:
    assert not found(LOOP, RANK="8")


def test_the_class_of_an_optimizer_under_another_name() -> None:
    text = """\
import torch
from transformers import AutoModelForCausalLM


def main(loader):
    model = AutoModelForCausalLM.from_pretrained("small", torch_dtype=torch.bfloat16)
    chosen = torch.optim.AdamW
    optimizer = chosen(model.parameters(), lr=1e-5)
    for batch in loader:
        model(**batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
"""
    assert found(text) == [("AMP217", Confidence.LIKELY)]
    assert not found(text.replace("AdamW", "SGD"))


ADDED = """\
import argparse
import torch
from accelerate import Accelerator
from diffusers import UNet2DConditionModel
from diffusers.training_utils import cast_training_params
from peft import LoraConfig, get_peft_model, inject_adapter_in_model


def main(args, loader):
    parser = argparse.ArgumentParser()
    parser.add_argument("--precision", choices=["no", "fp16", "bf16"])
    args = parser.parse_args()
    accelerator = Accelerator(mixed_precision=args.precision)
    unet = UNet2DConditionModel.from_pretrained("small")
    unet.requires_grad_(False)
    FIRST
    UPCAST
    optimizer = torch.optim.AdamW(filter(lambda p: p.requires_grad, unet.parameters()), lr=1e-4)
    unet, optimizer, loader = accelerator.prepare(unet, optimizer, loader)
    for batch in loader:
        loss = unet(batch).sample.float().mean()
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
"""
CAST = "unet.to(dtype=torch.bfloat16)"
BY_OPTION = "unet.to(dtype={'fp16': torch.float16, 'bf16': torch.bfloat16}[args.precision])"
ADD = "unet.add_adapter(LoraConfig(r=8))"


@pytest.mark.parametrize(
    ("first", "codes"),
    [
        (f"{CAST}\n    {ADD}", ["AMP217"]),
        (f"{ADD}\n    {CAST}", ["AMP217"]),
        (f"{CAST}\n    inject_adapter_in_model(LoraConfig(r=8), unet)", ["AMP217"]),
        (f"{CAST}\n    unet = get_peft_model(unet, LoraConfig(r=8), autocast_adapter_dtype=False)", ["AMP217"]),
        (f"unet = get_peft_model(unet, LoraConfig(r=8))\n    {CAST}", ["AMP217"]),
        (f"{BY_OPTION}\n    {ADD}", ["AMP208"]),  # and AMP217, of one cause
        (f"{CAST}\n    unet = get_peft_model(unet, LoraConfig(r=8))", []),  # which are float32
        (f"{CAST}\n    unet = get_peft_model(unet, LoraConfig(r=8), autocast_adapter_dtype=True)", []),
        (
            f"other = UNet2DConditionModel.from_pretrained('big')\n    other.add_adapter(LoraConfig(r=8))\n    {CAST}",
            [],
        ),
        (CAST, []),
    ],
)
def test_adapters_in_the_dtype_of_the_layers(first: str, codes: list[str]) -> None:
    told = found(ADDED, FIRST=first, UPCAST="pass")
    assert told == [(code, Confidence.LIKELY) for code in codes]


@pytest.mark.parametrize(
    ("upcast", "codes"),
    [
        ("cast_training_params(unet, dtype=torch.float32)", []),
        ("if args.precision == 'fp16':\n        cast_training_params(unet, dtype=torch.float32)", ["AMP217"]),
        ("if args.precision == 'bf16':\n        cast_training_params(unet, dtype=torch.float32)", ["AMP208"]),
        ("for p in unet.parameters():\n        p.data = p.data.float()", []),
    ],
)
def test_adapters_that_are_cast_back(upcast: str, codes: list[str]) -> None:
    told = found(ADDED, FIRST=f"{BY_OPTION}\n    {ADD}", UPCAST=upcast)
    assert told == [(code, Confidence.LIKELY) for code in codes]


def test_adapters_of_quantized_layers_have_no_dtype_of_them() -> None:
    text = ADDED.replace('from_pretrained("small")', 'from_pretrained("small", quantization_config=args.quantization)')
    assert not found(text, FIRST=f"{CAST}\n    {ADD}", UPCAST="pass")


def test_the_message_speaks_of_adapters() -> None:
    text = ADDED.replace("FIRST", f"{CAST}\n    {ADD}").replace("UPCAST", "pass")
    (message,) = [each.message for each in check(text, "train.py") if each.code == "AMP217"]
    assert "train bfloat16 adapters" in message
    assert message.endswith("keep float32 adapters, and use autocast")


CHOICE = """\
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModel


def train(name, loader, args):
    model = AutoModel.from_pretrained(name)
    CHOICE
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    for batch in loader:
        optimizer.zero_grad()
        model(**batch).loss.backward()
        optimizer.step()
"""
EITHER = (
    "if args.use_lora:\n        model = get_peft_model(model, LoraConfig())\n    else:\n        model = model.half()"
)
TWO_TESTS = EITHER.replace("else:", "if not args.use_lora:")
IN_TYPE = EITHER.replace("model = get_peft_model(model, LoraConfig())", "model.add_adapter(LoraConfig())")
AFTER = "if args.use_lora:\n        model = get_peft_model(model, LoraConfig())\n    model = model.half()"


@pytest.mark.parametrize(
    ("choice", "what"),
    [
        (EITHER, "without adapters, this cast makes the optimizer on line 12 train float16 parameters"),
        (TWO_TESTS, "without adapters, this cast makes the optimizer on line 12 train float16 parameters"),
        (IN_TYPE, "without adapters, this cast makes the optimizer on line 12 train float16 parameters"),
        (AFTER, "this cast makes the optimizer on line 11 train float16 adapters"),
    ],
)
def test_a_cast_where_no_adapters_are_added(choice: str, what: str) -> None:
    (message,) = [each.message for each in check(CHOICE.replace("CHOICE", choice), "train.py") if each.code == "AMP217"]
    assert message.startswith(f"{what}: ")


def test_what_becomes_nan_are_the_adapters() -> None:
    (message,) = [each.message for each in check(CHOICE.replace("CHOICE", AFTER), "train.py") if each.code == "AMP217"]
    assert "so adapters become NaN" in message
