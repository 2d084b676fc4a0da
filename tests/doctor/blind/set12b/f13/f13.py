"""Asynchronous learner: batches are scored by a pool, the main thread updates."""
from concurrent.futures import ThreadPoolExecutor

import torch
import torch.nn as nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self, n_in=10, width=48, classes=4):
        super().__init__()
        self.inp = nn.Linear(n_in, width)
        self.mid = nn.Linear(width, width)
        self.out = nn.Linear(width, classes)

    def forward(self, x):
        h = F.gelu(self.inp(x))
        return self.out(h + F.gelu(self.mid(h)))


class Tally:
    """Counts the types and bytes of the layer outputs."""

    def __init__(self, model):
        self.bytes, self.kinds = 0, {}
        for m in model.modules():
            if isinstance(m, nn.Linear):
                m.register_forward_hook(self.add)

    def add(self, module, args, out):
        self.bytes += out.numel() * out.element_size()
        self.kinds[str(out.dtype)] = self.kinds.get(str(out.dtype), 0) + 1


def clusters(n, centers):
    y = torch.randint(0, len(centers), (n,))
    return centers[y] + torch.randn(n, centers.size(1)), y


def objective(model, x, y):
    return F.cross_entropy(model(x), y)


def main(steps=40, shards=2):
    torch.manual_seed(6)
    centers = torch.randn(4, 10) * 1.5
    model = Net()
    tally = Tally(model)
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**12)
    with ThreadPoolExecutor(max_workers=shards) as pool:
        for step in range(steps):
            x, y = clusters(64, centers)
            opt.zero_grad(set_to_none=True)
            with torch.autocast("cpu", dtype=torch.float16):
                jobs = [pool.submit(objective, model, a, b)
                        for a, b in zip(x.chunk(shards), y.chunk(shards))]
                loss = sum(j.result() for j in jobs) / shards
            scaler.scale(loss).backward()
            scaler.step(opt)
            scaler.update()
            if step % 10 == 0:
                print(f"step {step} loss {loss.item():.4f}")
    print("layer outputs", tally.kinds, f"{tally.bytes / 1024:.0f} KiB")


main()
