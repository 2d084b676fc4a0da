"""AMP413 about a scaler that no option can turn on: it has no state to lose."""

from __future__ import annotations

import pytest

from amplint import check

TEXT = """\
import argparse
import torch


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dtype", OPTION)
    parser.add_argument("--resume")
    args = parser.parse_args()
    model = torch.nn.Linear(2, 2).to("cuda")
    optimizer = torch.optim.AdamW(model.parameters())
    on = args.dtype in ("bf16", "fp16")
    scaler = torch.amp.GradScaler("cuda", enabled=on and args.dtype == "fp16")
    if args.resume:
        kept = torch.load(args.resume)
        model.load_state_dict(kept["model"])
        optimizer.load_state_dict(kept["optimizer"])
    for x in range(10):
        scaler.scale(model(x).mean()).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "last.pt")


if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize(
    ("option", "found"),
    [
        ('default="bf16", choices=["bf16", "fp32"]', False),
        ('default="bf16", choices=["bf16", "fp16", "fp32"]', True),
        ('default="bf16"', True),
    ],
)
def test_what_its_choices_exclude_never_comes(option: str, found: bool) -> None:
    assert ("AMP413" in {each.code for each in check(TEXT.replace("OPTION", option))}) is found
