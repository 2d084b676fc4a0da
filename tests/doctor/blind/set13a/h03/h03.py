"""Contrastive metric learning in half; the distance part runs outside autocast."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(64, 64), nn.LayerNorm(64), nn.ReLU(), nn.Linear(64, dim))

    def forward(self, x):
        return self.f(x)


class ProxyLoss(nn.Module):
    """Squared distances to learnable proxies, embedding multiplied by a large gain."""

    def __init__(self, classes, dim, gain=300.0):
        super().__init__()
        self.proxy = nn.Parameter(torch.randn(classes, dim))
        self.gain = gain

    def forward(self, e, y):
        with torch.autocast("cpu", enabled=False):
            e = F.normalize(e.float(), dim=1, eps=1e-8) * self.gain
            p = F.normalize(self.proxy, dim=1, eps=1e-8) * self.gain
            d = (e.pow(2).sum(1)[:, None] + p.pow(2).sum(1)[None] - 2 * e @ p.t())
            d = d.clamp(min=1e-8).sqrt()
            logits = -d / 15.0
            pull = logits.gather(1, y[:, None]).squeeze(1)
            return (torch.logsumexp(logits, 1) - pull).mean(), d.detach().max().item()


def data(classes=10, per=30):
    g = torch.Generator().manual_seed(2)
    centre = torch.randn(classes, 64, generator=g)
    y = torch.arange(classes).repeat_interleave(per)
    return centre[y] + 1.2 * torch.randn(len(y), 64, generator=g), y


def main():
    torch.manual_seed(0)
    x, y = data()
    net, crit = Net(), ProxyLoss(10, 16)
    opt = torch.optim.AdamW([
        {"params": net.parameters(), "weight_decay": 1e-2},
        {"params": crit.parameters(), "lr": 3e-2, "weight_decay": 0.0}], lr=2e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
    for step in range(150):
        j = torch.randint(0, len(y), (32,))
        with torch.autocast("cpu", dtype=torch.float16):
            emb = net(x[j])
            loss, far = crit(emb, y[j])
        opt.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        if step % 30 == 0 or step == 149:
            with torch.no_grad():
                e = F.normalize(net(x), dim=1)
                acc = ((e @ F.normalize(crit.proxy, dim=1).t()).argmax(1) == y).float().mean().item()
            print(f"{step} loss {loss.item():.4f} largest distance {far:.1f} acc {acc:.3f} scale {scaler.get_scale():g}")


main()
