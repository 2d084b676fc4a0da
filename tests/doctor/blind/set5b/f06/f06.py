"""Pretrain an encoder on phantoms, store it, and tune a head on a new task."""
import os
import sys
import tempfile

import torch
import torch.nn as nn
import torch.nn.functional as F

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "f06"))
from nets import Classifier, Encoder  # noqa: E402
from scans import slices  # noqa: E402
from store import load_encoder, save_encoder  # noqa: E402


def batches(x, y, size):
    order = torch.randperm(len(x))
    for i in range(0, len(x) - size + 1, size):
        j = order[i:i + size]
        yield x[j], y[j]


def pretrain(path):
    x, y = slices(160, 4, seed=1)
    model = Classifier(Encoder(), 4)
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(4):
        for xb, yb in batches(x, y, 32):
            loss = F.cross_entropy(model(xb), yb)
            opt.zero_grad()
            loss.backward()
            opt.step()
        print(f"[pretrain] epoch {epoch} loss {loss.item():.3f}")
    save_encoder(model, path)


def finetune(path, epochs=5):
    x, y = slices(192, 3, seed=2)
    encoder = load_encoder(Encoder(), path)
    for p in encoder.parameters():
        p.requires_grad_(False)
    model = Classifier(encoder, 3)
    opt = torch.optim.AdamW(model.head.parameters(), lr=2e-2)
    for epoch in range(epochs):
        model.train()
        encoder.eval()
        total = n = hit = 0
        for xb, yb in batches(x, y, 32):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                logits = model(xb)
                loss = F.cross_entropy(logits, yb)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(model.head.parameters(), 1.0)
            opt.step()
            total += loss.item() * len(yb)
            hit += (logits.argmax(1) == yb).sum().item()
            n += len(yb)
        print(f"[finetune] epoch {epoch} loss {total / n:.3f} acc {hit / n:.3f}")


if __name__ == "__main__":
    torch.manual_seed(0)
    path = os.path.join(tempfile.mkdtemp(), "encoder.pt")
    pretrain(path)
    finetune(path)
