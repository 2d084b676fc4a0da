"""How many of AdamW's updates bfloat16 weights lose: `python -m tests.benchmarks.rounded_updates` (some minutes).

A small network learns what another one says; counted are the elements of its largest weight that a step leaves as they
are, in the last 15 % of the steps, with a constant rate and with one that falls to a tenth. AMP217 relies on it.
"""

from __future__ import annotations

import torch
from torch import nn

STEPS = 600
RATES = (1e-3, 3e-4, 1e-4)


def train(rate: float, dtype: torch.dtype, *, lowered: bool) -> tuple[float, float]:
    """The share of updates that change nothing, and the mean loss, both in the last 15 % of the steps."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Embedding(64, 128), nn.Flatten(), nn.Linear(1024, 256), nn.GELU(), nn.Linear(256, 64))
    teacher = nn.Sequential(nn.Embedding(64, 32), nn.Flatten(), nn.Linear(256, 64))
    weight = net.to(dtype)[2].weight
    optimizer = torch.optim.AdamW(net.parameters(), lr=rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS, eta_min=rate / 10 if lowered else rate)
    unchanged, losses = list[float](), list[float]()
    for step in range(STEPS):
        inputs = torch.randint(64, (64, 8))
        with torch.no_grad():
            labels = teacher(inputs).argmax(1)
        loss = nn.functional.cross_entropy(net(inputs).float(), labels)
        optimizer.zero_grad()
        loss.backward()
        before = weight.detach().clone()
        optimizer.step()
        schedule.step()
        if step >= STEPS * 0.85:
            unchanged.append((before == weight).float().mean().item())
            losses.append(loss.item())
    return sum(unchanged) / len(unchanged), sum(losses) / len(losses)


def main() -> None:
    """Print the table."""
    print("| rate | falls to a tenth | updates lost in bfloat16 | loss in bfloat16 | loss in float32 |")
    print("|---|---|---|---|---|")
    for rate in RATES:
        for lowered in (False, True):
            lost, loss = train(rate, torch.bfloat16, lowered=lowered)
            _, wide = train(rate, torch.float32, lowered=lowered)
            print(f"| {rate:g} | {'yes' if lowered else 'no'} | {lost:.0%} | {loss:.2f} | {wide:.2f} |", flush=True)


if __name__ == "__main__":
    main()
