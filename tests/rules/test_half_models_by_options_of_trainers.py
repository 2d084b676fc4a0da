"""AMP208, AMP217: one option chooses a model's dtype and a Trainer's precision, through dicts and lazy imports."""

from __future__ import annotations

import pytest

from amplint import check
from amplint.base.findings import Confidence

TUNING = """\
import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments


def main(cfg, data):
    if torch.cuda.is_available():
        use_bf16 = cfg["training"].get("bf16", True)
        use_fp16 = cfg["training"].get("fp16", False) and not use_bf16
        given = {"torch_dtype": torch.bfloat16 if use_bf16 else (torch.float16 if use_fp16 else torch.float32)}
    else:
        use_bf16 = use_fp16 = False
        given = {"torch_dtype": torch.float32}
    model = AutoModelForCausalLM.from_pretrained("small", **given)
    ADAPT
    settings = dict(output_dir="out", learning_rate=2e-5, SETTINGS)
    if cfg["steps"]:
        settings["max_steps"] = cfg["steps"]
    trainer = Trainer(model=model, args=TrainingArguments(**settings), train_dataset=data)
    trainer.train()
"""
BOTH = "bf16=use_bf16, fp16=use_fp16"
LAZY = """\
def load_torch():
    try:
        import torch
    except ImportError:
        raise SystemExit(5)
    return torch


def load():
    from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
    return AutoModelForCausalLM, Trainer, TrainingArguments
"""
LORA = """if cfg["regime"] in ("lora-sft", "qlora-sft"):
        from peft import LoraConfig, get_peft_model
        model = get_peft_model(model, LoraConfig(r=8))"""


def found(text: str, settings: str = BOTH, adapt: str = "model.train()") -> list[tuple[str, Confidence]]:
    text = text.replace("SETTINGS", settings).replace("ADAPT", adapt)
    return [(each.code, each.confidence) for each in check(text, "train.py") if each.code in ("AMP208", "AMP217")]


def lazy(loaded: str = "AutoModelForCausalLM, Trainer, TrainingArguments = load()") -> str:
    _, _, main = TUNING.partition("def main")
    return f"{LAZY}\n\ndef main{main}".replace("data):\n", f"data):\n    {loaded}\n    torch = load_torch()\n", 1)


@pytest.mark.parametrize("text", [TUNING, lazy(), lazy("(AutoModelForCausalLM, Trainer, TrainingArguments) = load()")])
def test_the_option_for_float16(text: str) -> None:
    assert found(text) == [("AMP208", Confidence.CERTAIN)]
    assert found(text, adapt=LORA) == [("AMP208", Confidence.LIKELY)]  # the other regimes
    assert found(text, "bf16=use_bf16") == [("AMP217", Confidence.LIKELY)]


@pytest.mark.parametrize(
    ("settings", "adapt"),
    [
        (f"{BOTH}, deepspeed='zero.json'", "model.train()"),
        (BOTH, "model = model.float()"),
        (BOTH, "from peft import get_peft_model\n    model = get_peft_model(model)"),
    ],
)
def test_what_keeps_the_parameters_in_float32(settings: str, adapt: str) -> None:
    assert not found(TUNING, settings, adapt)


@pytest.mark.parametrize("loaded", ["Trainer, *others = load()", "AutoModelForCausalLM, Trainer = other()"])
def test_what_is_loaded_cant_be_told(loaded: str) -> None:
    assert not found(lazy(loaded))
