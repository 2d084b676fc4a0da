import os
import tempfile
from functools import partial

import torch
from torch.nn.functional import huber_loss

from market.feed import read_returns, write_returns
from market.model import Forecaster
from market.pipeline import as_tensors, batched, chain, windows

TICKERS = ["ABN", "CRW", "DLT", "EPO", "FGH", "GAX"]


def epoch(model, opt, scaler, stream):
    total, count = 0.0, 0
    for past, target in stream:
        with torch.autocast("cpu", dtype=torch.float16):
            guess = model(past)
            loss = huber_loss(guess.float(), target)
        opt.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(opt)
        scaler.update()
        total += loss.item()
        count += 1
        if count % 6 == 0:
            print(f"  batch {count:2d} mean loss {total / count:.4f}")
    return total / count


def main():
    torch.manual_seed(9)
    model = Forecaster(len(TICKERS))
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2048.0)
    with tempfile.TemporaryDirectory() as tmp:
        path = os.path.join(tmp, "returns.csv")
        write_returns(path, TICKERS, days=700)
        for n in range(2):
            stream = chain(read_returns(path), as_tensors, partial(windows, width=12), partial(batched, size=16))
            mean = epoch(model, opt, scaler, stream)
            print(f"epoch {n}: {mean:.4f}")
            if mean != mean:
                raise RuntimeError("epoch loss is not a number")


if __name__ == "__main__":
    main()
