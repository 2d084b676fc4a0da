"""Reduced-order surrogate of a cantilever: a small net predicts modal coefficients, a fixed basis (in metres) gives the deflection."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

NODES, MODES = 24, 3


def mode_shapes():
    """Three bending shapes with a tip deflection of 0.2 mm."""
    s = torch.linspace(0, 1, NODES)
    shapes = torch.stack([s**2 * (3 - s) / 2, s**2 * (1 - s) * 4, torch.sin(3.14159 * 2 * s) * s])
    return 2e-4 * shapes


def simulate(n, seed):
    g = torch.Generator().manual_seed(seed)
    p = torch.rand(n, 4, generator=g) * 2 - 1
    c = torch.stack([1.2 * p[:, 0] * (1 + 0.5 * p[:, 1]), p[:, 2] * p[:, 3], 0.7 * torch.sin(3 * p[:, 1])], 1)
    return TensorDataset(p, c @ mode_shapes())


class Surrogate(nn.Module):
    def __init__(self, hidden=48):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, hidden), nn.SiLU(), nn.Linear(hidden, hidden), nn.SiLU(), nn.Linear(hidden, MODES))
        self.register_buffer("basis", mode_shapes())

    def forward(self, p):
        return self.net(p) @ self.basis


use_amp = True
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(0)

train_set = simulate(1024, 0)
variance = train_set.tensors[1].pow(2).mean().item()
loader = DataLoader(train_set, batch_size=64, shuffle=True)
model = Surrogate().to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3, eps=1e-15)
scaler = torch.amp.GradScaler(enabled=use_amp)

for epoch in range(8):
    total = 0.0
    for p, w in loader:
        p, w = p.to(device), w.to(device)
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device.type, dtype=torch.float16, enabled=use_amp):
            deflection = model(p)
            loss = nn.functional.mse_loss(deflection, w)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        total += loss.item()
    print(f"epoch {epoch} relative error {total / len(loader) / variance:.4f}")
