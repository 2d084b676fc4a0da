"""Ends with "Loss is nan, stopping training" after some steps."""

import math
import sys

import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.queries, self.keys, self.values = (nn.Linear(width, width, bias=False) for _ in range(3))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        queries, keys = self.queries(tokens), self.keys(tokens)
        scores = queries @ keys.transpose(-2, -1)
        weights = (scores / math.sqrt(tokens.shape[-1])).softmax(-1)
        return tokens + weights @ self.values(tokens)


torch.manual_seed(0)
model = nn.Sequential(Attention(64), Attention(64), nn.Linear(64, 64))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
scaler = torch.amp.GradScaler("cpu")

for step in range(100):
    tokens = torch.randn(4, 16, 64) * (1 + step)  # the activations grow while the model trains
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        outputs = model(tokens)
    loss = nn.functional.mse_loss(outputs.float(), tokens)
    if not math.isfinite(loss.item()):
        print(f"Loss is {loss.item()}, stopping training")
        sys.exit(1)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
