"""AMP219: a validation casts the model that is trained, through its wrapper or in a pipeline that has it."""

from __future__ import annotations

import pytest

from amplint import check
from amplint.base.findings import Confidence

TUNING = """\
import copy
import torch
from accelerate import Accelerator
from diffusers import DiffusionPipeline, UNet2DConditionModel
from diffusers.models.lora import LoRALinearLayer
from diffusers.training_utils import cast_training_params
from peft import LoraConfig


def log_validation(pipeline, accelerator, dtype):
    pipeline = pipeline.to(accelerator.device)
    return pipeline("a cat").images


def main(args, loader, ema):
    accelerator = Accelerator(mixed_precision=args.mixed_precision)
    unet = UNet2DConditionModel.from_pretrained("small")
    weight_dtype = torch.float32
    if accelerator.mixed_precision == "fp16":
        weight_dtype = torch.float16
    elif accelerator.mixed_precision == "bf16":
        weight_dtype = torch.bfloat16
    FIRST
    optimizer = torch.optim.AdamW(PARAMS, lr=args.lr)
    unet, optimizer, loader = accelerator.prepare(unet, optimizer, loader)
    for epoch in range(args.epochs):
        for batch in loader:
            loss = unet(batch).sample.float().mean()
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        VALIDATE
    LAST
"""
BARE = "accelerator.unwrap_model(unet)"
PIPELINE = f"pipeline = DiffusionPipeline.from_pretrained('small', unet={BARE}, torch_dtype=weight_dtype)"
CAST_FIRST = PIPELINE.replace(BARE, f"{BARE}.to(dtype=weight_dtype)")
CAST_THEN = f"{PIPELINE}\n        pipeline = pipeline.to(accelerator.device, dtype=weight_dtype)"
THROUGH_VARIABLE = (
    f"bare = {BARE}\n        pipeline = DiffusionPipeline.from_pretrained('small', unet=bare)\n"
    "        pipeline.to(accelerator.device, dtype=weight_dtype)"
)
CALLED = f"{PIPELINE}\n        log_validation(pipeline, accelerator, weight_dtype)"
FROZEN = "unet.requires_grad_(False)\n    unet.to(accelerator.device, dtype=weight_dtype)"
WITH_PEFT = f"{FROZEN}\n    unet.add_adapter(LoraConfig(r=4))\n    cast_training_params(unet, dtype=torch.float32)"
WITH_LAYERS = f"""{FROZEN}
    params = []
    for name, processor in unet.attn_processors.items():
        part = unet
        for each in name.split(".")[:-1]:
            part = getattr(part, each)
        part.to_q.set_lora_layer(LoRALinearLayer(4))
        params.extend(part.to_q.lora_layer.parameters())"""
OF_PEFT = "filter(lambda p: p.requires_grad, unet.parameters())"
WHOLE = "unet.parameters()"
BACK = f"unet = {BARE}\n    unet = unet.to(torch.float32)"


def found(validate: str = "pass", params: str = WHOLE, first: str = "pass", last: str = "pass") -> list[Confidence]:
    parts = {"FIRST": first, "PARAMS": params, "VALIDATE": validate, "LAST": last}
    text = TUNING
    for part, written in parts.items():
        text = text.replace(part, written)
    return [each.confidence for each in check(text, "train.py") if each.code == "AMP219"]


@pytest.mark.parametrize(
    "validate",
    [
        CAST_FIRST,
        CAST_FIRST.replace("accelerator.unwrap_model", "unwrap_model"),
        CAST_FIRST.replace(BARE, "unet.module"),
        CAST_FIRST.replace(BARE, "getattr(unet, 'module', unet)"),
        CAST_FIRST.replace(f"{BARE}.to(dtype=weight_dtype)", f"None if epoch else {BARE}.half()"),
        CAST_THEN,
        THROUGH_VARIABLE,
        f"bare = {BARE}\n        bare.to(dtype=weight_dtype)",
        f"pipeline = DiffusionPipeline(unet={BARE}).to(accelerator.device, torch.float16)",
        f"log_validation({BARE}.half(), accelerator, None)",
        "log_validation(unet.half(), accelerator, None)",
    ],
)
@pytest.mark.parametrize("last", ["pass", BACK])
def test_the_model_is_cast_while_it_is_trained(validate: str, last: str) -> None:
    assert found(validate, last=last) == [Confidence.LIKELY]


def test_a_function_casts_the_pipeline() -> None:
    text = TUNING.replace("to(accelerator.device)\n    return", "to(accelerator.device, dtype=dtype)\n    return")
    text = text.replace("FIRST", "pass").replace("LAST", "pass").replace("PARAMS", WHOLE).replace("VALIDATE", CALLED)
    assert [each.code for each in check(text, "train.py")] == ["AMP219"]


@pytest.mark.parametrize(("first", "params"), [(WITH_PEFT, OF_PEFT), (WITH_LAYERS, "params")])
@pytest.mark.parametrize("validate", [CAST_FIRST, CAST_THEN])
def test_adapters_of_a_frozen_model(first: str, params: str, validate: str) -> None:
    assert found(validate, params, first, BACK) == [Confidence.LIKELY]
    assert not found(CALLED, params, first, BACK)


def test_one_finding_for_a_model_and_its_pipeline() -> None:
    both = f"{CAST_FIRST}\n        pipeline = pipeline.to(accelerator.device, dtype=weight_dtype)"
    assert found(both) == [Confidence.LIKELY]


@pytest.mark.parametrize(
    "validate",
    [
        CALLED,
        PIPELINE,  # which doesn't cast what it is given
        CAST_FIRST.replace(BARE, f"copy.deepcopy({BARE})"),
        CAST_THEN.replace(BARE, "copy.deepcopy(unet)"),
        CAST_THEN.replace(BARE, "ema"),
        CAST_THEN.replace("dtype=weight_dtype)", "dtype=torch.float32)"),
        f"{PIPELINE}\n        pipeline = DiffusionPipeline.from_pretrained('big').to('cuda', dtype=weight_dtype)",
        "torch.save({key: each.half() for key, each in unet.state_dict().items()}, 'half.pt')",
        "images = unet(loader.half())",
        f"{CAST_THEN}\n        break",
    ],
)
def test_another_model_or_the_end(validate: str) -> None:
    assert not found(validate)


def test_the_cast_of_a_model_that_is_not_trained() -> None:
    assert not found(CAST_THEN, "ema.parameters()", "unet.requires_grad_(False)")
    assert not found(last=CAST_THEN.replace("        ", "    "))
