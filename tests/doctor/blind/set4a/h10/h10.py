"""Face-like metric learning: semi-hard mining with inf fills, a custom rounding Function, two phases (head, then all)."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class StraightThroughRound(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.float32)
    def forward(ctx, x, levels):
        return torch.round(x * levels) / levels

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, g):
        return g, None


class Embedder(nn.Module):
    def __init__(self, inputs=30, width=48, dim=16):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.head = nn.Linear(width, dim)

    def forward(self, x):
        z = F.normalize(self.head(self.trunk(x)).float(), dim=1)
        return StraightThroughRound.apply(z, 127)


def triplet(z, y, margin=0.3):
    d = torch.cdist(z, z).clamp(min=1e-4)
    same = y[:, None] == y[None]
    eye = torch.eye(len(y), dtype=torch.bool)
    pos = d.masked_fill(~same | eye, float("-inf")).amax(1)
    neg = d.masked_fill(same, float("inf")).amin(1)
    usable = (pos > 0) & torch.isfinite(neg)
    if not usable.any():
        return None
    return F.relu(pos[usable] - neg[usable] + margin).mean()


def persons(n, ids, g, centres):
    y = torch.randint(ids, (n,), generator=g)
    return centres[y] + 0.8 * torch.randn(n, centres.shape[1], generator=g), y


def recall(model, x, y):
    with torch.no_grad():
        z = model(x)
    d = torch.cdist(z, z).fill_diagonal_(float("inf"))
    return (y[d.argmin(1)] == y).float().mean().item()


def main():
    torch.manual_seed(0)
    g = torch.Generator().manual_seed(0)
    centres = torch.randn(20, 30, generator=g)
    model = Embedder()
    opt = torch.optim.AdamW(
        [{"params": model.trunk.parameters(), "lr": 1e-3}, {"params": model.head.parameters(), "lr": 3e-3}]
    )
    scaler = torch.amp.GradScaler("cpu")
    model.trunk.requires_grad_(False)
    vx, vy = persons(300, 20, g, centres)
    print("recall before", recall(model, vx, vy))
    for step in range(160):
        if step == 30:
            model.trunk.requires_grad_(True)
        n = 6 if step % 40 == 7 else 64
        x, y = persons(n, 20, g, centres)
        with torch.autocast("cpu", dtype=torch.float16):
            z = model(x)
        loss = triplet(z, y)
        if loss is None:
            continue
        opt.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        if step % 20 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    print("recall after", recall(model, vx, vy))


if __name__ == "__main__":
    main()
