"""Seq2seq on digit strings: copy them in reverse order (encoder-decoder with attention)."""
import contextlib
import logging
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

logging.basicConfig(level=logging.INFO, format="%(message)s")
log = logging.getLogger("s2s")


@dataclass
class Options:
    vocab: int = 12
    length: int = 8
    dim: int = 48
    batch: int = 64
    steps: int = 240
    lr: float = 3e-3
    precision: str = "fp16"


class Reverser(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.src = nn.Linear(o.vocab, o.dim)
        self.pos = nn.Linear(o.length, o.dim)
        self.query = nn.Linear(o.dim, o.dim)
        self.key = nn.Linear(o.dim, o.dim)
        self.value = nn.Linear(o.dim, o.dim)
        self.out = nn.Sequential(nn.Linear(o.dim, 2 * o.dim), nn.ReLU(), nn.Linear(2 * o.dim, o.vocab))
        self.register_buffer("where", torch.eye(o.length))
        self.vocab = o.vocab

    def forward(self, ids):
        place = self.pos(self.where)
        mem = self.src(F.one_hot(ids, self.vocab).float()) + place
        q = self.query(place).expand(ids.size(0), -1, -1)
        att = torch.softmax(q @ self.key(mem).transpose(1, 2) / q.size(-1) ** 0.5, -1)
        return self.out(att @ self.value(mem))


def region(o):
    if o.precision == "fp32":
        return contextlib.nullcontext()
    return torch.autocast("cpu", dtype={"fp16": torch.float16, "bf16": torch.bfloat16}[o.precision])


class Experiment:
    def __init__(self, o):
        torch.manual_seed(0)
        self.o = o
        self.gen = torch.Generator().manual_seed(1)
        self.net = Reverser(o)
        self.opt = torch.optim.Adam(self.net.parameters(), lr=o.lr)
        self.scaler = torch.amp.GradScaler("cpu", enabled=o.precision == "fp16")

    def batch(self):
        ids = torch.randint(self.o.vocab, (self.o.batch, self.o.length), generator=self.gen)
        return ids, ids.flip(1)

    def train_step(self):
        src, tgt = self.batch()
        self.opt.zero_grad(set_to_none=True)
        loss = F.cross_entropy(self.net(src).flatten(0, 1), tgt.flatten())
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.opt)
        torch.nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
        self.scaler.step(self.opt)
        self.scaler.update()
        return loss.item()

    def accuracy(self):
        src, tgt = self.batch()
        with torch.no_grad():
            return (self.net(src).argmax(-1) == tgt).float().mean().item()

    def run(self):
        with region(self.o):
            recent = []
            for step in range(1, self.o.steps + 1):
                recent.append(self.train_step())
                if step % 40 == 0:
                    log.info("step %d loss %.4f acc %.3f scale %g", step, sum(recent) / len(recent),
                             self.accuracy(), self.scaler.get_scale())
                    recent.clear()
        first = next(self.net.parameters())
        log.info("done, |W_src| %.3f", first.norm().item())


if __name__ == "__main__":
    Experiment(Options()).run()
