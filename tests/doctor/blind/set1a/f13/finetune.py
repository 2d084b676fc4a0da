import os
import tempfile

import torch
import torch.nn.functional as F

from modeling import Encoder


def task(seed, shift, bs=16, length=24):
    g = torch.Generator().manual_seed(seed)
    while True:
        y = torch.randint(0, 4, (bs,), generator=g)
        ids = torch.randint(0, 120, (bs, length), generator=g)
        hot = torch.rand(bs, length, generator=g) < 0.3
        ids = torch.where(hot, ((y + shift) % 4 * 30).unsqueeze(1) + ids % 10, ids)
        yield ids, y


def train(model, optimizer, scaler, data, steps, tag):
    model.train()
    for step, (ids, y) in zip(range(steps), data):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = F.cross_entropy(model(ids), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        if step % 10 == 0:
            print(f"[{tag}] {step:3d} {loss.item():.4f}")


def main():
    torch.manual_seed(12)
    scaler = torch.amp.GradScaler("cpu")
    path = os.path.join(tempfile.gettempdir(), f"enc_{os.getpid()}.pt")

    model = Encoder()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    train(model, optimizer, scaler, task(1, 0), 30, "stage 1")
    model.save(path)

    model = Encoder.load(path)
    for group in optimizer.param_groups:
        group["lr"] = 5e-4
    train(model, optimizer, scaler, task(2, 1), 30, "stage 2")
    os.remove(path)


if __name__ == "__main__":
    main()
