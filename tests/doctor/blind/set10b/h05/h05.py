"""Denoising pre-training and frequency estimation for plant sensors."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from sensors import impute, readings

SETUP = {"channels": 4, "hidden": 32, "epochs": 6, "batch": 60, "lr": 3e-3, "weight_rec": 0.5, "seed": 7}


class SensorModel(nn.Module):
    def __init__(self, channels, hidden):
        super().__init__()
        self.enc = nn.Sequential(
            nn.Conv1d(2 * channels, hidden, 5, padding=2), nn.ReLU(),
            nn.Conv1d(hidden, hidden, 5, padding=2), nn.ReLU(),
        )
        self.dec = nn.Conv1d(hidden, channels, 5, padding=2)
        self.freq = nn.Linear(hidden, 1)

    def forward(self, x):
        h = self.enc(x)
        return self.dec(h), self.freq(h.amax(-1)).squeeze(-1) + 0.25


def objective(rec, raw, freq, target, weight):
    seen = torch.isfinite(raw)
    reference = torch.nan_to_num(raw, nan=0.0, posinf=0.0, neginf=0.0)
    error = (rec.float() - reference).pow(2) * seen
    return weight * error.sum() / seen.sum() + 20.0 * F.mse_loss(freq.float(), target)


def evaluate(model, loader):
    model.eval()
    gap, n = 0.0, 0
    with torch.no_grad():
        for raw, target in loader:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                _, freq = model(impute(raw))
            gap += (freq.float() - target).abs().sum().item()
            n += len(target)
    return gap / n


def main():
    s = SETUP
    torch.manual_seed(s["seed"])
    x, f = readings()
    missing = (~torch.isfinite(x)).float().mean().item()
    print(f"windows {len(x)}, missing or saturated {missing:.1%}")
    g = torch.Generator().manual_seed(s["seed"])
    train = DataLoader(TensorDataset(x[:1000], f[:1000]), s["batch"], shuffle=True, generator=g)
    val = DataLoader(TensorDataset(x[1000:], f[1000:]), s["batch"])
    model = SensorModel(s["channels"], s["hidden"])
    opt = torch.optim.AdamW(model.parameters(), lr=s["lr"])
    for epoch in range(s["epochs"]):
        model.train()
        total = 0.0
        for raw, target in train:
            opt.zero_grad()
            with torch.autocast("cpu", dtype=torch.bfloat16):
                rec, freq = model(impute(raw))
                loss = objective(rec, raw, freq, target, s["weight_rec"])
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            total += loss.item()
        print(f"epoch {epoch} loss {total / len(train):.4f} frequency gap {evaluate(model, val):.4f}")


if __name__ == "__main__":
    main()
