"""AMP213: regions without a dtype that are on for bfloat16, as their switch or the scaling of their losses shows."""

from __future__ import annotations

import pytest

from amplint import check

OPTION = """\
import argparse
import torch


def main(model, loader):
    parser = argparse.ArgumentParser()
    parser.add_argument("--precision", default="fp16", choices=CHOICES)
    args = parser.parse_args()
    CHECK
    for x, y in loader:
        REGION
            loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
"""
SWITCH = 'with torch.autocast("cuda", enabled=args.precision != "fp32"):'
ALL = '["fp32", "fp16", "bf16"]'
ARMS = """\
if args.precision == "bf16":
            region = torch.autocast("cuda", dtype=torch.bfloat16)
        else:
            region = torch.autocast("cuda", enabled=args.precision != "fp32")
        with region:"""
FLAG = """\
import torch


class Trainer:
    def __init__(self, config, model):
        self.model = model
        self.optimizer = torch.optim.AdamW(model.parameters())
        self.use_amp = config["mixed_precision"] != "no"
        self.scaler = torch.amp.GradScaler("cuda")

    def step(self, x, y):
        is_bf16 = getattr(self.model, "torch_dtype", None) == torch.bfloat16
        with REGION:
            loss = torch.nn.functional.mse_loss(self.model(x), y)
        if self.use_amp and TEST:
            self.scaler.scale(loss).backward()
            self.scaler.step(self.optimizer)
            self.scaler.update()
        else:
            loss.backward()
            self.optimizer.step()
"""
SWITCHED = 'torch.amp.autocast("cuda", enabled=self.use_amp)'


def found(text: str) -> list[str]:
    return [f"{each.confidence.value} {each.message}" for each in check(text) if each.code == "AMP213"]


def of_option(region: str = SWITCH, choices: str = ALL, more: str = "pass") -> list[str]:
    return found(OPTION.replace("REGION", region).replace("CHOICES", choices).replace("CHECK", more))


def test_an_option() -> None:
    assert of_option() == [
        'certain `args.precision` can be "bf16", as line 7 shows, but this region has no `dtype=` and runs in float16 '
        "on cuda: values above 65504 overflow; pass the dtype"
    ]


def test_a_setting_that_is_compared() -> None:
    member = 'assert args.precision in ("no", "fp16", "bf16")'
    (message,) = of_option(choices="None", more=member)
    assert message.startswith('likely `args.precision` can be "bf16", as line 9 shows')


@pytest.mark.parametrize(
    ("enabled", "text"),
    [
        ('args.precision in ("fp16", "bf16")', 'certain `args.precision` can be "bf16", as line 11 shows'),
        ("args.bf16", "certain `args.bf16` selects bfloat16"),
    ],
)
def test_a_switch_that_asks_for_bfloat16(enabled: str, text: str) -> None:
    (message,) = of_option(f'with torch.autocast("cuda", enabled={enabled}):', "None")
    assert message.startswith(text)


@pytest.mark.parametrize(
    ("region", "choices", "more"),
    [
        (SWITCH, '["fp32", "fp16"]', "pass"),
        (SWITCH, ALL, 'args.precision = "fp16"'),
        (SWITCH, "None", 'if args.precision == "bf16":\n        raise ValueError("not supported")'),
        (SWITCH, ALL, "torch.set_autocast_gpu_dtype(torch.bfloat16)"),
        (SWITCH.replace("cuda", "cpu"), ALL, "pass"),
        (SWITCH.replace("!=", "==").replace("fp32", "fp16"), ALL, "pass"),
        (ARMS, ALL, "pass"),
        ('with torch.autocast("cuda", enabled=args.fp16 or args.bf16):', "None", "pass"),
    ],
)
def test_where_bfloat16_is_not_meant(region: str, choices: str, more: str) -> None:
    assert of_option(region, choices, more) == []


def test_a_flag_that_decides_on_the_scale() -> None:
    (message,) = found(FLAG.replace("REGION", SWITCHED).replace("TEST", "not is_bf16"))
    assert message.startswith("likely for bfloat16 the loss is not scaled (`is_bf16`, line 15), but this region has no")


@pytest.mark.parametrize(
    ("region", "test"),
    [
        (SWITCHED, "self.ready"),
        (SWITCHED.replace("self.use_amp", "self.use_amp and not is_bf16"), "not is_bf16"),
        (f'(torch.autocast("cuda", dtype=torch.bfloat16) if is_bf16 else {SWITCHED})', "not is_bf16"),
        (SWITCHED, "is_bf16"),
    ],
)
def test_a_flag_that_decides_on_the_region_too(region: str, test: str) -> None:
    assert found(FLAG.replace("REGION", region).replace("TEST", test)) == []
