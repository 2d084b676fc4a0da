"""Fine-tune only the adapters and the head of a small encoder (float16)."""
import logging
import os
import tempfile

import torch
import torch.nn.functional as F
from torch import nn

log = logging.getLogger("adapter")

ARGS = dict(vocab=100, classes=3, length=14, dim=48, bottleneck=8, epochs=6, batch=48,
            lr=4e-3, accumulate=2, seed=29)


def reviews(n, seed):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, ARGS["classes"], (n,), generator=g)
    base = torch.randint(0, 70, (n, ARGS["length"]), generator=g)
    mark = 70 + 10 * y[:, None] + torch.randint(0, 10, base.shape, generator=g)
    return torch.where(torch.rand(base.shape, generator=g) < 0.25, mark, base), y


class Adapter(nn.Module):
    def __init__(self, dim, small):
        super().__init__()
        self.down, self.up = nn.Linear(dim, small), nn.Linear(small, dim)
        nn.init.zeros_(self.up.weight)
        nn.init.zeros_(self.up.bias)

    def forward(self, x):
        return x + self.up(F.gelu(self.down(x)))


class EncoderLayer(nn.Module):
    def __init__(self, dim, small):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = nn.MultiheadAttention(dim, 4, batch_first=True)
        self.ff = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))
        self.adapter = Adapter(dim, small)

    def forward(self, x):
        h = self.n1(x)
        x = x + self.attn(h, h, h, need_weights=False)[0]
        return self.adapter(x + self.ff(self.n2(x)))


class Classifier(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.emb = nn.Embedding(a["vocab"], a["dim"])
        self.layers = nn.ModuleList([EncoderLayer(a["dim"], a["bottleneck"]) for _ in range(2)])
        self.head = nn.Linear(a["dim"], a["classes"])

    def forward(self, ids):
        x = self.emb(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(x.mean(1))


def freeze(net):
    for name, p in net.named_parameters():
        p.requires_grad_("adapter" in name or name.startswith("head"))
    train = sum(p.numel() for p in net.parameters() if p.requires_grad)
    log.info("training %d of %d parameters", train, sum(p.numel() for p in net.parameters()))


def validate(net, x, y):
    net.eval()
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.float16):
        out = net(x)
    return F.cross_entropy(out.float(), y).item(), (out.argmax(1) == y).float().mean().item()


def main():
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    torch.manual_seed(ARGS["seed"])
    net = Classifier(ARGS)
    freeze(net)
    x, y = reviews(1200, 1)
    xv, yv = reviews(300, 2)
    opt = torch.optim.AdamW(net.parameters(), lr=ARGS["lr"])
    scaler = torch.amp.GradScaler("cpu", init_scale=8192.0)
    best = 0.0
    path = os.path.join(tempfile.mkdtemp(), "best.pt")
    for epoch in range(ARGS["epochs"]):
        net.train()
        chunks = torch.randperm(len(x)).split(ARGS["batch"])
        for k, i in enumerate(chunks, 1):
            with torch.autocast("cpu", dtype=torch.float16):
                loss = F.cross_entropy(net(x[i]), y[i])
            scaler.scale(loss / ARGS["accumulate"]).backward()
            if k % ARGS["accumulate"] == 0 or k == len(chunks):
                scaler.step(opt)
                scaler.update()
                opt.zero_grad(set_to_none=True)
        vl, va = validate(net, xv, yv)
        if va > best:
            best = va
            torch.save({k: v for k, v in net.state_dict().items() if "adapter" in k or "head" in k}, path)
        log.info("epoch %d train %.4f val %.4f acc %.3f", epoch, loss.item(), vl, va)
    net.load_state_dict(torch.load(path), strict=False)
    log.info("best %.3f, reloaded %.3f", best, validate(net, xv, yv)[1])


if __name__ == "__main__":
    main()
