"""AMP208, AMP217: adapters that are added to a model in float32, and are cast with it later."""

from __future__ import annotations

import pytest

from amplint import check
from amplint.base.findings import Confidence

LAYERS = """\
import itertools
import torch
from accelerate import Accelerator
from diffusers import UNet2DConditionModel
from diffusers.loaders import AttnProcsLayers
from diffusers.models.attention_processor import AttnProcessor2_0, LoRAAttnProcessor
from diffusers.training_utils import cast_training_params
from lora_diffusion import LoRALinearLayer, LoRANetwork, inject_trainable_lora


def add_layers(net, rank):
    net.set_attn_processor({name: LoRAAttnProcessor(rank=rank) for name in net.attn_processors})


def main(args, loader):
    accelerator = Accelerator(mixed_precision=args.mixed_precision)
    unet = UNet2DConditionModel.from_pretrained("small")
    other = UNet2DConditionModel.from_pretrained("other")
    unet.requires_grad_(False)
    weight_dtype = torch.float32
    if accelerator.mixed_precision == "fp16":
        weight_dtype = torch.float16
    elif accelerator.mixed_precision == "bf16":
        weight_dtype = torch.bfloat16
    FIRST
    ADD
    OPTIMIZER
    unet, optimizer, loader = accelerator.prepare(unet, optimizer, loader)
    THEN
    for batch in loader:
        loss = unet(batch).sample.float().mean()
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
    LAST
"""
CAST = "unet.to(accelerator.device, dtype=weight_dtype)"
PROCESSORS = "procs = {name: LoRAAttnProcessor(rank=4) for name in unet.attn_processors}"
LIST = "AttnProcsLayers(unet.attn_processors)"
SET = f"{PROCESSORS}\n    unet.set_attn_processor(procs)\n    layers = {LIST}"
IN_HELPER = f"add_layers(unet, 4)\n    layers = {LIST}"
NETWORK = "layers = LoRANetwork(unet)"
NOT_ADAPTED = "unet.set_attn_processor(AttnProcessor2_0())\n    layers = LoRANetwork(other)"
INJECTED = "params, _ = inject_trainable_lora(unet)"
ADAM = "optimizer = torch.optim.AdamW(layers.parameters(), lr=args.lr)"
OF_LAYERS = "layers.to(dtype=weight_dtype)"
EACH_DATA = "for p in layers.parameters():\n        p.data = p.data.float()"
EACH_LAYER = "for each in unet.attn_processors.values():\n        each.float()"
PREPARED = "layers, optimizer = accelerator.prepare(layers, optimizer)"
OF_WHOLE = "optimizer = torch.optim.AdamW(filter(lambda p: p.requires_grad, unet.parameters()), lr=args.lr)"
OF_LISTS = "optimizer = torch.optim.AdamW(itertools.chain(*params), lr=args.lr)"
BY_LOOP = (
    "params = []\n    for each in unet.attn_processors.values():\n        params.extend(each.parameters())\n"
    "    optimizer = torch.optim.AdamW(params, lr=args.lr)"
)
LAYER_BY_LAYER = (
    "for part in unet.modules():\n        if hasattr(part, 'set_lora_layer'):\n"
    "            part.to_q.set_lora_layer(LoRALinearLayer(4))"
)


def found(**parts: str) -> list[tuple[str, Confidence]]:
    text = LAYERS
    for part in ("FIRST", "ADD", "OPTIMIZER", "THEN", "LAST"):
        text = text.replace(f"    {part}\n", f"    {parts.get(part, 'pass')}\n")
    return [(each.code, each.confidence) for each in check(text, "train.py") if each.code in ("AMP208", "AMP217")]


@pytest.mark.parametrize(
    "parts",
    [
        {"ADD": SET, "OPTIMIZER": ADAM, "THEN": CAST},
        {"ADD": f"{SET}\n    {CAST}", "OPTIMIZER": ADAM},
        {"ADD": SET, "OPTIMIZER": ADAM, "THEN": "unet.half()"},
        {"ADD": SET, "OPTIMIZER": f"{ADAM}\n    {PREPARED}", "THEN": OF_LAYERS},
        {"ADD": SET, "OPTIMIZER": OF_WHOLE, "THEN": CAST},
        {"ADD": SET, "OPTIMIZER": BY_LOOP, "THEN": CAST},
        {
            "ADD": SET.replace(LIST, "torch.nn.ModuleList(unet.attn_processors.values())"),
            "OPTIMIZER": ADAM,
            "THEN": CAST,
        },
        {"ADD": IN_HELPER, "OPTIMIZER": ADAM, "THEN": CAST},
        {"ADD": IN_HELPER.replace("add_layers", "add_lora_layers"), "OPTIMIZER": ADAM, "THEN": CAST},
        {"ADD": INJECTED, "OPTIMIZER": OF_LISTS, "THEN": CAST},
        {"ADD": INJECTED, "OPTIMIZER": OF_WHOLE, "THEN": CAST},
        {"ADD": LAYER_BY_LAYER, "OPTIMIZER": OF_WHOLE, "THEN": CAST},
        {"ADD": NETWORK, "OPTIMIZER": f"{ADAM}\n    {PREPARED}", "THEN": OF_LAYERS},
        # The weights are cast back to be saved.
        {"ADD": SET, "OPTIMIZER": ADAM, "THEN": CAST, "LAST": "unet = unet.to(torch.float32)\n    unet.save('out')"},
        {"ADD": SET, "OPTIMIZER": ADAM, "THEN": CAST, "LAST": "layers.float()"},
    ],
)
def test_adapters_that_are_cast_later(parts: dict[str, str]) -> None:
    assert found(**parts) == [("AMP208", Confidence.LIKELY)]


@pytest.mark.parametrize(
    "parts",
    [
        {"FIRST": CAST, "ADD": SET, "OPTIMIZER": ADAM},
        {"FIRST": CAST, "ADD": IN_HELPER, "OPTIMIZER": ADAM},
        {"FIRST": CAST, "ADD": INJECTED, "OPTIMIZER": OF_LISTS},
        {"FIRST": CAST, "ADD": LAYER_BY_LAYER, "OPTIMIZER": OF_WHOLE},
        {"ADD": SET, "OPTIMIZER": ADAM, "LAST": CAST},
        {"ADD": SET, "OPTIMIZER": ADAM, "THEN": "unet.to(accelerator.device)"},
        {"ADD": SET, "OPTIMIZER": ADAM, "THEN": "unet.to(dtype=torch.float32)"},
        # They are cast back.
        {"ADD": SET, "OPTIMIZER": ADAM, "THEN": f"{CAST}\n    layers.float()"},
        {"ADD": SET, "OPTIMIZER": ADAM, "THEN": f"{CAST}\n    unet.float()"},
        {"ADD": SET, "OPTIMIZER": ADAM, "THEN": f"{CAST}\n    cast_training_params(unet, dtype=torch.float32)"},
        {"ADD": SET, "OPTIMIZER": ADAM, "THEN": f"{CAST}\n    {EACH_DATA}"},
        {"ADD": SET, "OPTIMIZER": BY_LOOP, "THEN": f"{CAST}\n    {EACH_LAYER}"},
        # Another model has them.
        {"ADD": SET.replace("unet.", "other."), "OPTIMIZER": ADAM, "THEN": CAST},
        {"ADD": NOT_ADAPTED, "OPTIMIZER": ADAM, "THEN": CAST},
    ],
)
def test_adapters_that_stay_in_float32(parts: dict[str, str]) -> None:
    assert not found(**parts)


def test_a_model_that_is_loaded_anew_casts_no_adapters_of_the_one_before() -> None:
    """peft keeps the adapters of a half model in float32."""
    loads = """\
model = AutoModelForCausalLM.from_pretrained(path, torch_dtype=torch.bfloat16)
model = get_peft_model(model, config)
optimizer = torch.optim.AdamW([each for each in model.parameters() if each.requires_grad], lr=1e-5)
for x in loader:
    model(x).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""
    head = "import torch\nfrom peft import get_peft_model\nfrom transformers import AutoModelForCausalLM\n"
    assert "AMP217" not in [each.code for each in check(head + loads + loads)]
