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
    ],
)
def test_adapters_that_are_trained(parts: dict[str, str]) -> None:
    assert not found(TRAINER, **{**ASKED, **parts})


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
