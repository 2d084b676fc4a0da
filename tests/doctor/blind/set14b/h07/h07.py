import math

import torch
import torch.nn as nn

from master import MasterOptimizer

RATE, CLASSES = 2000, 4


def chirps(n, g, samples=800):
    """Rising, falling, steady and pulsed tones."""
    t = torch.arange(samples) / RATE
    y = torch.randint(CLASSES, (n,), generator=g)
    f = 150 + 300 * torch.rand(n, 1, generator=g)
    slope = torch.tensor([350.0, -350.0, 0.0, 0.0])[y][:, None]
    wave = torch.sin(2 * math.pi * ((f + 200) * t + 0.5 * slope * t ** 2))
    pulse = (torch.sin(2 * math.pi * 12 * t) > 0).float()
    wave = torch.where((y == 3)[:, None], wave * pulse, wave)
    return wave + 0.1 * torch.randn(n, samples, generator=g), y


def features(wave):
    spec = torch.stft(wave, 64, 40, window=torch.hann_window(64), return_complex=True).abs()
    return torch.log(spec.clamp(min=1e-3)).flatten(1)


class HalfMLP(nn.Module):
    def __init__(self, inputs):
        super().__init__()
        self.l1, self.l2, self.l3 = nn.Linear(inputs, 64), nn.Linear(64, 32), nn.Linear(32, CLASSES)

    def forward(self, x):
        x = torch.relu(self.l1(x))
        return self.l3(torch.relu(self.l2(x)))


def main():
    torch.manual_seed(0)
    g = torch.Generator().manual_seed(1)
    wave, y = chirps(900, g)
    x = features(wave)
    x = ((x - x[:700].mean(0)) / x[:700].std(0)).half()
    model = HalfMLP(x.shape[1]).half()
    opt = MasterOptimizer(model.parameters(), lambda p: torch.optim.AdamW(p, lr=1e-3, weight_decay=0.01))
    for epoch in range(8):
        total, norms = 0.0, []
        batches = torch.randperm(700).split(35)
        for idx in batches:
            loss = nn.functional.cross_entropy(model(x[idx]).float(), y[idx])
            opt.backward(loss)
            norms.append(opt.step(max_norm=2.0).item())
            total += loss.item()
        with torch.no_grad():
            acc = (model(x[700:]).argmax(1) == y[700:]).float().mean()
        print(f"epoch {epoch} loss {total / len(batches):.4f} acc {acc:.3f} first norm {norms[0]:.3f} "
              f"max norm {max(norms):.3f} scale {opt.scale:g} skipped {opt.skipped}")


if __name__ == "__main__":
    main()
