"""AMP208, AMP217: a pipeline is loaded in half precision, and a model that is a part of it is trained."""

from __future__ import annotations

import pytest

from amplint import check
from amplint.base.findings import Confidence

TUNING = """\
import torch
from accelerate import Accelerator
from diffusers import StableDiffusionPipeline, UNet2DConditionModel
from diffusers.loaders import AttnProcsLayers
from diffusers.models.attention_processor import LoRAAttnProcessor


def main(config, loader, ref):
    accelerator = Accelerator(mixed_precision=config.mixed_precision)
    unet = UNet2DConditionModel.from_pretrained("small")
    pipeline = StableDiffusionPipeline.from_pretrained("small", torch_dtype=torch.float16)
    pipeline.vae.requires_grad_(False)
    dtype = torch.float32
    if accelerator.mixed_precision == "fp16":
        dtype = torch.float16
    elif accelerator.mixed_precision == "bf16":
        dtype = torch.bfloat16
    pipeline.vae.to(accelerator.device, dtype=dtype)
    CAST
    layers = pipeline.unet
    optimizer = torch.optim.AdamW(layers.parameters(), lr=1e-4)
    layers, optimizer = accelerator.prepare(layers, optimizer)
    for batch in loader:
        loss = pipeline.unet(batch).sample.float().mean()
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
"""
LAYERS = "    layers = pipeline.unet\n"
BY_OPTION = """\
    pipeline.unet.requires_grad_(not config.use_lora)
    if config.use_lora:
        pipeline.unet.to(dtype=dtype)
        procs = {name: LoRAAttnProcessor(rank=4) for name in pipeline.unet.attn_processors}
        pipeline.unet.set_attn_processor(procs)
        layers = AttnProcsLayers(pipeline.unet.attn_processors)
    else:
        layers = pipeline.unet
"""
ADAPTED = BY_OPTION.partition("    else:")[0].replace("not config.use_lora", "False")
PREPARED = "layers, optimizer = accelerator.prepare(layers, optimizer)"
LOADED = "torch_dtype=torch.float16"


def found(cast: str, *changes: tuple[str, str]) -> list[tuple[str, Confidence]]:
    text = TUNING.replace("CAST", cast)
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return [(each.code, each.confidence) for each in check(text, "train.py") if each.code in ("AMP208", "AMP217")]


@pytest.mark.parametrize(
    ("cast", "changes"),
    [
        ("pass", []),
        ("text = pipeline.text_encoder.float()", []),
        ("pass", [("layers.parameters()", "pipeline.unet.parameters()")]),
        ("pass", [("layers.parameters()", "layers.up_blocks.parameters()")]),
        ("pass", [(LAYERS, BY_OPTION)]),
        ("pipeline.to('cuda', torch.float16)", [(f", {LOADED}", "")]),
        ("pipeline.unet.to(dtype=dtype)", []),
        ("pipeline.unet = pipeline.unet.to(accelerator.device)", []),
        ("pass", [(f'"small", {LOADED}', f'"small", vae=ref, {LOADED}')]),
    ],
)
def test_a_part_of_a_half_pipeline_is_trained(cast: str, changes: list[tuple[str, str]]) -> None:
    assert found(cast, *changes) == [("AMP208", Confidence.LIKELY)]


def test_without_a_scaler() -> None:
    changes = [(PREPARED, "pass"), ("accelerator.backward(loss)", "loss.backward()")]
    assert found("pass", *changes) == [("AMP217", Confidence.CERTAIN)]


@pytest.mark.parametrize(
    ("cast", "changes"),
    [
        ("pipeline.unet.float()", []),
        ("layers = pipeline.unet\n    layers.to(torch.float32)", []),
        ("pipeline.to(torch.float32)", []),
        ("pipeline.unet.requires_grad_(False)", []),
        ("pipeline.unet = UNet2DConditionModel.from_pretrained('small')", []),
        ("pipeline.unet = ref", [("layers.parameters()", "pipeline.unet.parameters()")]),
        ("pass", [(f'"small", {LOADED}', f'"small", unet=unet, {LOADED}')]),
        ("pass", [("layers = pipeline.unet", "layers = unet")]),
        ("pipeline.unet.requires_grad_(False)", [(LAYERS, ADAPTED)]),
    ],
)
def test_a_part_in_float32(cast: str, changes: list[tuple[str, str]]) -> None:
    assert not found(cast, *changes)
