"""Sequence tagging with a small transformer, loss summed over tokens."""
import logging

import torch
import torch.nn.functional as F
from torch import nn

from train_utils import Meter, prepare

log = logging.getLogger("tagger")
CONF = dict(vocab=60, tags=5, length=20, dim=48, heads=4, layers=2, batch=64, epochs=4, lr=2e-3, seed=31)


def make_split(n, seed):
    """The tag of a token depends on the token and the one before it."""
    g = torch.Generator().manual_seed(seed)
    ids = torch.randint(1, CONF["vocab"], (n, CONF["length"]), generator=g)
    prev = torch.cat([torch.zeros(n, 1, dtype=torch.long), ids[:, :-1]], dim=1)
    tags = (ids % CONF["tags"] + (prev > 30).long()) % CONF["tags"]
    return ids, tags


class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.ff = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v)
        x = x + self.proj(a.transpose(1, 2).reshape(b, t, d))
        return x + self.ff(self.n2(x))


class Tagger(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.emb = nn.Embedding(c["vocab"], c["dim"])
        self.pos = nn.Parameter(0.5 * torch.randn(c["length"], c["dim"]))
        self.layers = nn.Sequential(*[Layer(c["dim"], c["heads"]) for _ in range(c["layers"])])
        self.out = nn.Linear(c["dim"], c["tags"])

    def forward(self, ids):
        return self.out(self.layers(self.emb(ids) + self.pos))


@torch.no_grad()
def accuracy(net, ids, tags):
    net.eval()
    with torch.autocast("cpu", dtype=torch.float16):
        pred = net(ids).argmax(-1)
    return (pred == tags).float().mean().item()


def main():
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    torch.manual_seed(CONF["seed"])
    x, y = make_split(1600, 1)
    xv, yv = make_split(300, 2)
    net = Tagger(CONF)
    opt = prepare(net, CONF["lr"])
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 20)
    meter = Meter()
    for epoch in range(CONF["epochs"]):
        net.train()
        meter.reset()
        for idx in torch.randperm(len(x)).split(CONF["batch"]):
            opt.zero_grad(set_to_none=True)
            with torch.autocast("cpu", dtype=torch.float16):
                logits = net(x[idx])
                loss = F.cross_entropy(logits.flatten(0, 1), y[idx].flatten(), reduction="sum")
            scaler.scale(loss).backward()
            scaler.step(opt)
            scaler.update()
            meter.add(loss.item() / y[idx].numel(), len(idx))
        log.info("epoch %d nll/token %.4f accuracy %.3f scale %g", epoch, meter.mean,
                 accuracy(net, xv, yv), scaler.get_scale())


if __name__ == "__main__":
    main()
