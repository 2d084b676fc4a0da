"""Character CNN name classifier with a hand-tuned loss scaler."""
import torch
import torch.nn as nn
import torch.nn.functional as F

CONFIG = {
    "seed": 21,
    "batch": 64,
    "steps": 70,
    "lr": 2e-3,
    "amp": {"init_scale": 2.0 ** 28, "growth_factor": 1.1, "backoff_factor": 0.98, "growth_interval": 500},
}


class NameNet(nn.Module):
    def __init__(self, chars=27, classes=5, dim=24):
        super().__init__()
        self.emb = nn.Embedding(chars, dim)
        self.mix = nn.Linear(3 * dim, 2 * dim)
        self.head = nn.Linear(2 * dim, classes)

    def forward(self, ids):
        e = self.emb(ids)
        tri = torch.cat([e[:, :-2], e[:, 1:-1], e[:, 2:]], dim=-1)
        return self.head(F.relu(self.mix(tri)).amax(1))


def names(batch, gen):
    y = torch.randint(0, 5, (batch,), generator=gen)
    ids = torch.randint(0, 27, (batch, 10), generator=gen)
    pos = torch.randint(0, 8, (batch,), generator=gen)
    for b in range(batch):
        ids[b, pos[b]:pos[b] + 3] = torch.tensor([5 * int(y[b]), 5 * int(y[b]) + 1, 5 * int(y[b]) + 2])
    return ids, y


def build(cfg):
    torch.manual_seed(cfg["seed"])
    net = NameNet()
    opt = torch.optim.Adam(net.parameters(), lr=cfg["lr"])
    scaler = torch.amp.GradScaler("cpu", **cfg["amp"])
    return net, opt, scaler


def run(cfg):
    net, opt, scaler = build(cfg)
    gen = torch.Generator().manual_seed(cfg["seed"])
    for step in range(1, cfg["steps"] + 1):
        ids, y = names(cfg["batch"], gen)
        with torch.autocast("cpu", dtype=torch.float16):
            logits = net(ids)
            loss = F.cross_entropy(logits, y)
        opt.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        if step % 10 == 0:
            print(f"step {step:3d} loss {loss.item():.4f} acc {(logits.argmax(1) == y).float().mean():.2f}")


if __name__ == "__main__":
    run(CONFIG)
