"""AMP208 and a model that is cast to float16, and given to an object that trains it."""

from __future__ import annotations

import pytest

from amplint import check
from amplint.config.settings import Settings

SETTINGS = Settings(frozenset({"AMP208"}), isolated=True, target_torch="2.6")
PROGRAM = """\
import torch
import transformers
from transformers import AutoModelForCausalLM


class Trainer:
    def __init__(self, model, config):
        self.model = model.to(config.device)
        self.optimizer = MADE(self.model.parameters(), lr=1e-4)
        self.scaler = torch.amp.GradScaler(enabled=config.bf16) if config.device == "cuda" else None

    def train(self, loader):
        for batch in loader:
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = self.model(**batch).loss
            if self.scaler is not None:
                self.scaler.scale(loss).backward()
                self.scaler.step(self.optimizer)
                self.scaler.update()
            else:
                loss.backward()
                self.optimizer.step()
            self.optimizer.zero_grad()


model = AutoModelForCausalLM.from_pretrained("gpt2", torch_dtype=torch.float16).to("cuda")
trainer = Trainer(model, config)
trainer.train(loader)
"""


def found(text: str) -> list[str]:
    return [each.confidence.value for each in check(text, "a.py", SETTINGS)]


@pytest.mark.parametrize("made", ["torch.optim.AdamW", "transformers.AdamW"])
def test_a_model_that_a_trainer_keeps(made: str) -> None:
    assert found(PROGRAM.replace("MADE", made)) == ["likely"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("MADE", "master_copies"),
        ("model.to(config.device)\n", "model.to(config.device)\n        self.model.float()\n"),
        ("model.to(config.device)\n", "model.to(config.device)\n        self.model = wrap(self.model)\n"),
        ("self.model.parameters()", "build().parameters()"),
        ("trainer = Trainer(model, config)", "trainer = Trainer(build(), config)"),
        ("trainer = Trainer(model, config)", "model.float()\ntrainer = Trainer(model, config)"),
        ("enabled=config.bf16", "enabled=False"),
    ],
)
def test_what_is_right(old: str, new: str) -> None:
    assert found(PROGRAM.replace(old, new).replace("MADE", "torch.optim.AdamW")) == []


PREPARED = """\
import torch
from accelerate import Accelerator

accelerator = Accelerator(mixed_precision=args.mixed_precision)
model, teacher = build(), build()
dtype = torch.float32
if accelerator.mixed_precision == "fp16":
    dtype = torch.float16
elif accelerator.mixed_precision == "bf16":
    dtype = torch.bfloat16
CAST.to(accelerator.device, dtype=dtype)
trained = list(filter(lambda each: each.requires_grad, model.parameters()))
groups = [{"params": trained, "lr": 1e-4}]
optimizer = get_optimizer(params_to_optimize=groups)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for batch in loader:
    loss = model(batch) + teacher(batch)
    accelerator.backward(loss)
    accelerator.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
"""


def test_a_function_that_makes_the_optimizer_of_an_accelerator() -> None:
    assert found(PREPARED.replace("CAST", "model")) == ["likely"]


@pytest.mark.parametrize("change", ["", "for each in trained:\n    each.data = each.float()\n"])
def test_a_model_that_the_accelerator_does_not_train_in_float16(change: str) -> None:
    cast = "teacher" if not change else "model"
    assert found(PREPARED.replace("CAST", cast).replace("groups =", f"{change}groups =")) == []


IN_A_LOOP = """\
import torch


def train(vae, unet, loader, args):
    vae.requires_grad_(False)
    weight_dtype = torch.float32
    if args.mixed_precision == "fp16":
        weight_dtype = torch.float16
    {models}
    for module in {each}:
        module.to("cuda", dtype=weight_dtype)
    optimizer = torch.optim.AdamW(unet.parameters(), lr=1e-4)
    scaler = torch.amp.GradScaler("cuda", enabled=args.mixed_precision == "fp16")
    for x in loader:
        with torch.autocast("cuda", dtype=torch.float16, enabled=scaler.is_enabled()):
            loss = unet(vae(x)).sum()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    ("models", "each", "count"),
    [
        ("pass", "(vae, unet)", 1),
        ("models = [unet, vae]", "models", 1),
        ("pass", "(vae, args.text_encoder)", 0),
        ("models = [vae]", "models", 0),
    ],
)
def test_models_that_a_loop_casts(models: str, each: str, count: int) -> None:
    assert len(found(IN_A_LOOP.format(models=models, each=each))) == count
