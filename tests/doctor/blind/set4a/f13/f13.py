"""Seq2point energy disaggregation, trainer class, SGD, gradient clipping, fp16."""
from contextlib import nullcontext

import torch
import torch.nn as nn


class LoadData:
    """Mains power as a sum of appliances; the target is the fridge's power at the middle."""

    def __init__(self, window=49, seed=0):
        self.window = window
        self.gen = torch.Generator().manual_seed(seed)

    def batch(self, n):
        g = self.gen
        t = torch.arange(self.window).float()
        phase = torch.rand(n, 1, generator=g) * 20
        fridge = ((t + phase) % 20 < 9).float()
        kettle = torch.zeros(n, self.window)
        start = torch.randint(0, self.window - 4, (n,), generator=g)
        for i in range(n):
            if torch.rand(1, generator=g) < 0.3:
                kettle[i, start[i] : start[i] + 4] = 3.0
        mains = fridge + kettle + 0.05 * torch.randn(n, self.window, generator=g)
        return mains[:, None], fridge[:, self.window // 2]


class Seq2Point(nn.Module):
    def __init__(self, window):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(1, 16, 9, padding=4), nn.ReLU(),
            nn.Conv1d(16, 16, 7, padding=3), nn.ReLU(),
            nn.Flatten(), nn.Linear(16 * window, 32), nn.ReLU(), nn.Linear(32, 1),
        )

    def forward(self, x):
        return self.net(x).squeeze(1)


class MixedPrecision:
    def __init__(self, enabled=True, max_norm=1.0):
        self.enabled = enabled
        self.max_norm = max_norm
        self.scaler = torch.amp.GradScaler("cpu", enabled=enabled)

    def context(self):
        return torch.autocast("cpu", dtype=torch.float16) if self.enabled else nullcontext()

    def apply(self, loss, optimizer, parameters):
        optimizer.zero_grad(set_to_none=True)
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(optimizer)
        norm = nn.utils.clip_grad_norm_(parameters, self.max_norm)
        self.scaler.update()
        self.scaler.step(optimizer)
        return norm


class Trainer:
    def __init__(self, steps=80, batch=32, lr=0.05):
        torch.manual_seed(0)
        self.data = LoadData()
        self.model = Seq2Point(self.data.window)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=lr, momentum=0.9)
        self.amp = MixedPrecision()
        self.steps, self.batch = steps, batch

    def run(self):
        for step in range(self.steps):
            x, y = self.data.batch(self.batch)
            with self.amp.context():
                loss = nn.functional.mse_loss(self.model(x), y)
            norm = self.amp.apply(loss, self.optimizer, self.model.parameters())
            if step % 10 == 0 or step == self.steps - 1:
                print(f"step {step} mse {loss.item():.4f} norm {norm.item():.3f}")


if __name__ == "__main__":
    Trainer().run()
