"""AMP217 where a Trainer of transformers or TRL trains a half model, and where a function wraps the model."""

from __future__ import annotations

import pytest

from amplint import check
from amplint.base.findings import Confidence
from amplint.config.settings import Settings

ALL = Settings(frozenset({"AMP208", "AMP217"}), isolated=True, suspicions=True)
TUNING = """\
import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
from trl import GRPOConfig, GRPOTrainer


def main(options, data):
    model = AutoModelForCausalLM.from_pretrained("gpt2", torch_dtype=torch.bfloat16)
    args = TrainingArguments("out", learning_rate=2e-5, bf16=True)
    trainer = Trainer(model=model, args=args, train_dataset=data)
    trainer.train()
"""
TRAINING = 'TrainingArguments("out", learning_rate=2e-5, bf16=True)'


@pytest.mark.parametrize(
    ("old", "new", "confidence"),
    [
        ("", "", Confidence.LIKELY),
        (TRAINING, 'TrainingArguments("out", learning_rate=1e-5)', Confidence.LIKELY),
        (TRAINING, 'TrainingArguments("out", learning_rate=2e-5)', Confidence.SUSPICION),
        (TRAINING, 'TrainingArguments("out", bf16=True)', Confidence.LIKELY),  # 5e-5
        (TRAINING, 'TrainingArguments("out", learning_rate=options.rate, bf16=True)', Confidence.SUSPICION),
        (TRAINING, 'GRPOConfig("out")', Confidence.LIKELY),  # 1e-6
        ("torch.bfloat16", "torch.float16", Confidence.LIKELY),
        # Nothing is trained in half precision.
        ("torch.bfloat16", "torch.float32", None),
        ("torch_dtype=torch.bfloat16)", "torch_dtype=torch.bfloat16)\n    model.float()", None),
        ("bf16=True)", 'bf16=True, deepspeed="zero.json")', None),
        ("bf16=True)", 'bf16=True, fsdp="full_shard")', None),
        ("    trainer =", "    model = get_peft_model(model)\n    trainer =", None),
        ("model=model", "model=options.model", None),
    ],
)
def test_a_trainer_trains_a_half_model(old: str, new: str, confidence: Confidence | None) -> None:
    assert old in TUNING
    text = TUNING.replace(old, new)
    for trainer in (text, text.replace("= Trainer(", "= GRPOTrainer(")):
        told = check(trainer, "train.py", ALL)
        assert [each.confidence for each in told] == ([confidence] if confidence is not None else [])
        assert all(each.code == "AMP217" and trainer[each.start :].startswith("AutoModel") for each in told)


def test_a_float16_model_with_a_scaler_is_amp208s() -> None:
    text = TUNING.replace("torch.bfloat16", "torch.float16").replace("bf16=True", "fp16=True")
    assert [each.code for each in check(text, "train.py", ALL)] == ["AMP208"]


WRAPPED = """\
import torch
from torch.nn.parallel import DistributedDataParallel
from parts import Net, WRAP


def train(config, loader):
    model = Net(config.model).to(config.device, dtype=torch.bfloat16)
    model = WRAP(model)
    if config.ddp:
        model = DistributedDataParallel(model)
    raw = model.module if config.ddp else model
    optimizer = torch.optim.AdamW(raw.parameters(), lr=1e-5)
    for x, y in loader:
        loss = model(x, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
OWN = "def compile_model(model):\n    model = model.to(0)\n    return torch.compile(model)\n"


@pytest.mark.parametrize(
    ("name", "own", "count"),
    [
        ("compile_if_available", "", 1),
        ("wrap_for_ddp", "", 1),
        ("to_device", "", 1),
        ("unwrap_model", "", 1),
        ("compile_model", OWN, 1),
        # These may give another model.
        ("quantize", "", 0),
        ("with_float32_head", "", 0),
        ("compile_model", OWN.replace("model.to(0)", "model.float()"), 0),
    ],
)
def test_a_function_wraps_the_model(name: str, own: str, count: int) -> None:
    text = WRAPPED.replace("WRAP", name)
    if own:
        text = text.replace(f", {name}\n", "\n").replace("\n\ndef train", f"\n\n{own}\n\ndef train")
    told = check(text, "train.py", ALL)
    assert [each.confidence for each in told] == [Confidence.LIKELY] * count


@pytest.mark.parametrize(
    ("raw", "count"),
    [
        ("model", 1),
        ('getattr(model, "module", model)', 1),
        ("model._orig_mod if config.compiled else model", 1),
        ("model.head if config.ddp else model", 1),
        ("config.other if config.ddp else model", 0),
    ],
)
def test_another_name_of_the_model(raw: str, count: int) -> None:
    text = WRAPPED.replace("    model = WRAP(model)\n", "").replace(", WRAP", "")
    text = text.replace("model.module if config.ddp else model", raw)
    assert len(check(text, "train.py", ALL)) == count
