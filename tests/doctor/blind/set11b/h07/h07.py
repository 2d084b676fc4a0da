"""Instruction fine-tuning of a small LM: interrupted, resumed from a checkpoint, finished in bf16."""
import io
import logging
import math
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import nn

logging.basicConfig(level=logging.INFO, format="%(message)s")
log = logging.getLogger("sft")


@dataclass(frozen=True)
class TrainArgs:
    precision: str = "fp16"
    lr: float = 5e-3
    warmup: int = 10
    total: int = 160
    stop_at: int = 160
    save_every: int = 60

    @property
    def dtype(self):
        return {"fp16": torch.float16, "bf16": torch.bfloat16}[self.precision]


class TinyLM(nn.Module):
    def __init__(self, vocab=50, dim=48, ctx=4):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.body = nn.Sequential(nn.Linear(ctx * dim, 128), nn.GELU(), nn.LayerNorm(128), nn.Linear(128, dim))
        self.ctx = ctx

    def forward(self, ids):
        w = self.emb(ids).unfold(1, self.ctx, 1).flatten(2)
        return self.body(w) @ self.emb.weight.t()


def examples(step, n=48, t=14):
    g = torch.Generator().manual_seed(1000 + step)
    a = torch.randint(1, 50, (n, 1), generator=g)
    d = torch.randint(1, 6, (n, 1), generator=g)
    return (a + d * torch.arange(t)) % 50


class Trainer:
    def __init__(self, args):
        torch.manual_seed(0)
        self.args = args
        self.model = TinyLM()
        nn.init.normal_(self.model.emb.weight, std=0.1)
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=args.lr, weight_decay=0.0)
        self.sched = torch.optim.lr_scheduler.LambdaLR(self.opt, self.rate)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 21, enabled=args.dtype is torch.float16)
        self.step = 0

    def rate(self, it):
        a = self.args
        if it < a.warmup:
            return (it + 1) / a.warmup
        return 0.5 * (1 + math.cos(math.pi * (it - a.warmup) / (a.total - a.warmup)))

    def save(self):
        f = io.BytesIO()
        torch.save({"model": self.model.state_dict(), "opt": self.opt.state_dict(), "sched": self.sched.state_dict(),
                    "scaler": self.scaler.state_dict(), "step": self.step}, f)
        return f.getvalue()

    def load(self, blob):
        ck = torch.load(io.BytesIO(blob))
        self.model.load_state_dict(ck["model"])
        self.opt.load_state_dict(ck["opt"])
        self.sched.load_state_dict(ck["sched"])
        self.scaler.load_state_dict(ck["scaler"])
        self.step = ck["step"]

    def run(self):
        blob = None
        while self.step < self.args.stop_at:
            ids = examples(self.step)
            self.opt.zero_grad(set_to_none=True)
            with torch.autocast("cpu", dtype=self.args.dtype):
                logits = self.model(ids)[:, :-1]
                loss = F.cross_entropy(logits.float().flatten(0, 1), ids[:, self.model.ctx:].flatten())
            self.scaler.scale(loss).backward()
            self.scaler.step(self.opt)
            scale = self.scaler.get_scale()
            self.scaler.update()
            if self.scaler.get_scale() >= scale:
                self.sched.step()
            self.step += 1
            if self.step % 20 == 0:
                log.info("%s step %d loss %.4f lr %.2e scale %g", self.args.precision, self.step, loss.item(),
                         self.sched.get_last_lr()[0], self.scaler.get_scale())
            if self.step % self.args.save_every == 0:
                blob = self.save()
        return blob


if __name__ == "__main__":
    first = TrainArgs(stop_at=70)
    ckpt = Trainer(first).run()
    second = Trainer(replace(first, stop_at=120))
    second.load(ckpt)
    ckpt = second.run()
    third = Trainer(replace(first, precision="bf16", stop_at=160))
    third.load(ckpt)
    third.run()
