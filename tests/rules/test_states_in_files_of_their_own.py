"""AMP423: the state of a disabled scaler in a file of its own."""

from __future__ import annotations

import pytest

from amplint import check

TEXT = """\
import argparse
import torch


def main(args):
    model = torch.nn.Linear(2, 2).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda", enabled=ENABLED)
    if args.resume:
        optimizer.load_state_dict(torch.load(f"{args.resume}/optimizer.pt"))
        LOAD
    for x, y in args.loader:
        with torch.autocast("cuda", enabled=args.amp):
            loss = torch.nn.functional.mse_loss(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    torch.save(model.state_dict(), f"{args.out}/model.pt")
    torch.save(optimizer.state_dict(), f"{args.out}/optimizer.pt")
    SAVE


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--amp", action="store_true")
    parser.add_argument("--resume")
    parser.add_argument("--out")
    main(parser.parse_args())
"""
SAVE = 'torch.save(scaler.state_dict(), f"{args.out}/scaler.pt")'
DIRECT = 'scaler.load_state_dict(torch.load(f"{args.resume}/scaler.pt"))'
KEPT = 'state = torch.load(args.resume + "/scaler.pt")\n        '


def found(load: str, save: str = SAVE, enabled: str = "args.amp") -> bool:
    text = TEXT.replace("LOAD", load).replace("SAVE", save).replace("ENABLED", enabled)
    return "AMP423" in {each.code for each in check(text)}


@pytest.mark.parametrize("load", [DIRECT, f"{KEPT}scaler.load_state_dict(state)"])
def test_an_empty_state_is_loaded(load: str) -> None:
    assert found(load)


@pytest.mark.parametrize(
    ("load", "save", "enabled"),
    [
        (f"{KEPT}if state:\n            scaler.load_state_dict(state)", SAVE, "args.amp"),
        (DIRECT, f"if args.amp:\n        {SAVE}", "args.amp"),
        (DIRECT, SAVE, "True"),
        (DIRECT, SAVE.replace("scaler.pt", "other.pt"), "args.amp"),
    ],
)
def test_a_state_that_is_there(load: str, save: str, enabled: str) -> None:
    assert not found(load, save, enabled)


def test_a_load_that_asks_for_the_flag_meets_what_a_run_without_it_has_saved() -> None:
    assert found(f"if args.amp:\n            {DIRECT}")
