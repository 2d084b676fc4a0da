"""MLP-Mixer on toy textures, bf16 mixed precision."""
import os
import sys
import time

import torch
import torch.nn.functional as F

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "f14"))
from blocks import Mixer  # noqa: E402


def textures(n, gen):
    y = torch.randint(0, 3, (n,), generator=gen)
    r = torch.arange(16.0)
    freq = torch.tensor([0.6, 1.2, 2.0])[y]
    phase = torch.rand(n, generator=gen) * 6.28
    img = torch.sin(freq[:, None, None] * (r[:, None] + 0.5 * r[None, :])[None] + phase[:, None, None])
    return img + 0.3 * torch.randn(n, 16, 16, generator=gen), y


def train(steps=60):
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(1)
    model = Mixer()
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
    began = time.time()
    for step in range(steps):
        img, y = textures(32, gen)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = model(img)
            loss = F.cross_entropy(logits.float(), y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        if step % 10 == 0:
            print(f"step {step} loss {loss.item():.4f} activations {logits.dtype}")
    print(f"{steps / (time.time() - began):.1f} steps/s")


if __name__ == "__main__":
    train()
