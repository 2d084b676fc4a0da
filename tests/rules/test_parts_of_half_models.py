"""AMP208: parts of a model that is loaded in float16, as a pipeline's, are trained with an Accelerator's scaler."""

from __future__ import annotations

import pytest

from amplint import check
from amplint.base.findings import Confidence
from amplint.config.settings import Settings

PROGRAM = """\
import torch
from accelerate import Accelerator
from diffusers import StableDiffusionPipeline

def main(config, loader):
    accelerator = Accelerator(mixed_precision="fp16")
    pipeline = StableDiffusionPipeline.from_pretrained(config.model, torch_dtype=torch.float16)
    pipeline.vae.requires_grad_(False)
    {part}
    optimizer = torch.optim.AdamW(unet.parameters(), lr=1e-5)
    unet, optimizer = accelerator.prepare(unet, optimizer)
    for batch in loader:
        loss = unet(batch).mean()
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(unet.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    ("part", "confidences"),
    [
        ("unet = pipeline.unet", [Confidence.CERTAIN]),
        ("unet = pipeline.unet; unet.to(accelerator.device)", [Confidence.CERTAIN]),
        ("unet = pipeline.unet if not config.lora else config.layers", [Confidence.LIKELY]),
        ("unet = pipeline.unet; unet.to(accelerator.device, torch.float32)", []),
        ("unet = pipeline.unet.float()", []),
        ("pipeline.unet.to(torch.float32); unet = pipeline.unet", []),
        ("unet = pipeline.vae", []),
    ],
)
def test_a_part_of_a_pipeline(part: str, confidences: list[Confidence]) -> None:
    found = check(PROGRAM.format(part=part), settings=Settings(frozenset({"AMP208"}), isolated=True))
    assert [each.confidence for each in found] == confidences
