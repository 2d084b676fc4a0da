"""Pretrain an event-sequence model on one task, keep a small checkpoint, fine-tune it on another."""
import os
import sys
import tempfile

import torch
import torch.nn.functional as F

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "f06"))
import checkpoint  # noqa: E402
from model import EventModel  # noqa: E402


def events(n, seed, task):
    g = torch.Generator().manual_seed(seed)
    kind = torch.randint(0, 12, (n, 9), generator=g)
    age = torch.rand(n, 9, generator=g).pow(3) * 86400 * 3
    recent = (age < 7200).float()
    if task == "count":
        y = recent.sum(1) / 4
    else:
        y = ((kind == 3).float() * recent).sum(1).clamp(max=1)
    return kind, age, y


def fit(model, data, steps, lr, loss_fn, tag):
    kind, age, y = data
    opt = torch.optim.AdamW(model.parameters(), lr=lr)
    for step in range(steps):
        idx = torch.randint(0, len(y), (48,))
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = model(kind[idx], age[idx])
        loss = loss_fn(out.float(), y[idx])
        opt.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        if step % 10 == 0 or step == steps - 1:
            print(f"[{tag}] step {step} loss {loss.item():.4f}")


def main():
    torch.manual_seed(2)
    path = os.path.join(tempfile.mkdtemp(), "pretrained_fp16.pt")
    model = EventModel()
    fit(model, events(600, 0, "count"), 40, 3e-3, F.mse_loss, "pretrain")
    checkpoint.save_slim(model, path)

    tuned = EventModel()
    checkpoint.load(tuned, path)
    fit(tuned, events(400, 1, "fraud"), 40, 1e-3, F.binary_cross_entropy_with_logits, "finetune")


if __name__ == "__main__":
    main()
