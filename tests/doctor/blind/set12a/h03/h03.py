"""LSTM regression with gradient accumulation; the update lives in its own helper."""
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

ACCUM = 3


def make(n, seed, length=16):
    g = torch.Generator().manual_seed(seed)
    x = torch.rand(n, length, 2, generator=g)
    x[..., 1] = 0.0
    idx = torch.stack([torch.randperm(length, generator=g)[:2] for _ in range(n)])
    x[..., 1].scatter_(1, idx, 1.0)
    y = (x[..., 0] * x[..., 1]).sum(1)
    return TensorDataset(x, y)


class Adder(nn.Module):
    def __init__(self, hidden=32):
        super().__init__()
        self.lstm = nn.LSTM(2, hidden, batch_first=True)
        self.att = nn.Linear(hidden + 2, 1)
        self.head = nn.Linear(1, 1)

    def forward(self, x):
        with torch.autocast("cpu", enabled=False):
            h, _ = self.lstm(x)
        w = torch.sigmoid(self.att(torch.cat([h, x], -1)))
        return self.head((w * x[..., :1]).sum(1)).squeeze(-1)


def param_groups(model, decay):
    flat = [p for p in model.parameters() if p.ndim < 2]
    full = [p for p in model.parameters() if p.ndim >= 2]
    return [{"params": full, "weight_decay": decay}, {"params": flat, "weight_decay": 0.0}]


def limit(params, bound):
    """Rescales in place when the joint length is above the bound."""
    grads = [p.grad for p in params if p.grad is not None]
    total = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(g) for g in grads]))
    if total > bound:
        for g in grads:
            g.mul_(bound / (total + 1e-6))
    return total.item()


def apply_update(scaler, opt, bound):
    scaler.unscale_(opt)
    total = limit([p for grp in opt.param_groups for p in grp["params"]], bound)
    scaler.step(opt)
    scaler.update()
    opt.zero_grad(set_to_none=False)
    return total


def epoch(model, loader, opt, scaler):
    sums, norms, pending = 0.0, [], 0
    for x, y in loader:
        with torch.autocast("cpu", dtype=torch.float16):
            pred = model(x)
        loss = nn.functional.mse_loss(pred.float(), y)
        scaler.scale(loss / ACCUM).backward()
        pending += 1
        sums += loss.item()
        if pending == ACCUM:
            norms.append(apply_update(scaler, opt, 5.0))
            pending = 0
    if pending:
        norms.append(apply_update(scaler, opt, 5.0))
    return sums / len(loader), max(norms)


def main():
    torch.manual_seed(4)
    loader = DataLoader(make(320, 0), batch_size=16, shuffle=True)
    x, y = make(200, 1).tensors
    model = Adder()
    opt = torch.optim.AdamW(param_groups(model, 1e-3), lr=3e-2)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 14, growth_interval=25)
    for ep in range(9):
        loss, norm = epoch(model, loader, opt, scaler)
        with torch.no_grad():
            mse = nn.functional.mse_loss(model(x), y).item()
        print(f"epoch {ep} loss {loss:.4f} norm {norm:.3f} held-out {mse:.4f} scale {scaler.get_scale():g}")


if __name__ == "__main__":
    main()
