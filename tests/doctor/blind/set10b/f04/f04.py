"""Speaker embeddings from utterance statistics, batch-hard triplets."""
import json
import logging
import os

import torch
import torch.nn.functional as F
from torch import nn

from losses import BatchHardTriplet

LOG = logging.getLogger("speaker")
CFG = {"speakers": 40, "per_speaker": 20, "frames": 30, "mels": 20, "dim": 48,
       "P": 10, "K": 4, "steps": 240, "lr": 2e-3, "seed": 8}


class Utterances:
    def __init__(self, cfg):
        g = torch.Generator().manual_seed(cfg["seed"])
        n = cfg["speakers"]
        voice = torch.randn(n, 1, 1, cfg["mels"], generator=g)
        noise = torch.randn(n, cfg["per_speaker"], cfg["frames"], cfg["mels"], generator=g)
        self.x = voice * 0.6 + noise
        self.cfg, self.g = cfg, g

    def sample(self):
        who = torch.randperm(self.cfg["speakers"], generator=self.g)[:self.cfg["P"]]
        xs, ys = [], []
        for w in who.tolist():
            pick = torch.randperm(self.cfg["per_speaker"] - 5, generator=self.g)[:self.cfg["K"]]
            xs.append(self.x[w, pick])
            ys += [w] * self.cfg["K"]
        return torch.cat(xs), torch.tensor(ys)

    def held_out(self):
        x = self.x[:, -5:]
        return x.flatten(0, 1), torch.arange(len(x)).repeat_interleave(5)


class Encoder(nn.Module):
    def __init__(self, mels, dim):
        super().__init__()
        self.frame = nn.Sequential(nn.Linear(mels, 96), nn.GELU(), nn.Linear(96, 96), nn.GELU())
        self.out = nn.Linear(192, dim)

    def forward(self, x):
        h = self.frame(x).float()
        stats = torch.cat([h.mean(1), h.std(1)], dim=-1)
        return F.normalize(self.out(stats).float(), dim=-1)


@torch.no_grad()
def retrieval(model, data):
    x, y = data.held_out()
    z = model(x)
    sim = z @ z.t()
    sim.fill_diagonal_(-2.0)
    return (y[sim.argmax(1)] == y).float().mean().item()


def main():
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    torch.manual_seed(CFG["seed"])
    LOG.info(json.dumps(CFG))
    data = Utterances(CFG)
    model = Encoder(CFG["mels"], CFG["dim"])
    crit = BatchHardTriplet()
    opt = torch.optim.Adam(model.parameters(), lr=CFG["lr"])
    for step in range(1, CFG["steps"] + 1):
        x, y = data.sample()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            z = model(x)
            loss = crit(z, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 40 == 0:
            LOG.info("step %d triplet %.4f retrieval %.3f", step, loss.item(), retrieval(model, data))
    os.makedirs("runs", exist_ok=True)
    torch.save(model.state_dict(), "runs/encoder.pt")


if __name__ == "__main__":
    main()
