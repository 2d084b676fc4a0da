"""AMP213: a model that is created with a dtype which can be bfloat16, called in a region without a dtype."""

from __future__ import annotations

import pytest

import amplint
from amplint.base.findings import Confidence

TEXT = """\
import torch
from transformers import AutoModel


def dtype_called(name):
    if name == "bfloat16":
        return torch.bfloat16
    if name == "float16":
        return torch.float16
    return torch.float32


class Tower(torch.nn.Module):
    def __init__(self, name, dtype):
        super().__init__()
        self.body = AutoModel.from_pretrained(name, torch_dtype=dtype)


def validate(model, batches):
    for batch in batches:
        with torch.autocast("cuda"DTYPE):
            model(batch)


def main(settings, batches):
    dtype = CHOSEN
    model = MADE
    validate(model, batches)
"""
LOADED, OWN = "AutoModel.from_pretrained(settings.name, torch_dtype=dtype)", "Tower(settings.name, dtype=dtype)"


def found(chosen: str, made: str = LOADED, dtype: str = "", more: str = "") -> list[amplint.Finding]:
    text = TEXT.replace("CHOSEN", chosen).replace("MADE", made).replace("DTYPE", dtype) + more
    return [each for each in amplint.check(text) if each.code == "AMP213"]


@pytest.mark.parametrize("made", [LOADED, OWN, f"{LOADED}.eval().to('cuda')"])
@pytest.mark.parametrize(
    "chosen", ["dtype_called(settings.dtype)", "torch.bfloat16 if settings.bf16 else torch.float32", "torch.bfloat16"]
)
def test_the_model_can_be_bfloat16(chosen: str, made: str) -> None:
    (finding,) = found(chosen, made)
    assert finding.confidence is Confidence.LIKELY
    assert "which can be bfloat16" in finding.message


@pytest.mark.parametrize(
    "changes",
    [
        {"chosen": "torch.float16 if settings.half else torch.float32"},
        {"chosen": "settings.dtype"},
        {"chosen": "torch.bfloat16", "dtype": ", dtype=torch.bfloat16"},
        {"chosen": "torch.bfloat16", "dtype": ", enabled=False"},
        {"chosen": "torch.bfloat16", "made": "AutoModel.from_pretrained(settings.name)"},
        {"chosen": "torch.bfloat16", "more": "\nscaler = torch.amp.GradScaler('cuda')\n"},  # float16 is meant
    ],
)
def test_what_is_no_bfloat16_or_not_meant(changes: dict[str, str]) -> None:
    assert found(**changes) == []


@pytest.mark.parametrize(("name", "offered"), [("pipe", False), ("self.pipeline", False), ("model", True)])
def test_images_of_a_pipeline_are_not_made_bfloat16(name: str, offered: bool) -> None:
    text = f"""\
import torch


class Trainer:
    def __init__(self, args, pipeline):
        self.pipeline = pipeline
        self.dtype = torch.bfloat16 if args.bf16 else torch.float32

    def show(self, prompts, model, pipe):
        model.to(self.dtype)
        for prompt in prompts:
            with torch.autocast("cuda"):
                image = {name}(prompt)
            image.save(prompt)
"""
    (finding,) = amplint.check(text, settings=amplint.make_settings(select=["AMP213"]))
    assert (finding.fix is not None) is offered
