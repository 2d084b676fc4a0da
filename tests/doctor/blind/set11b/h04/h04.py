"""CTC phoneme recogniser on synthetic features with random time masking."""
import logging
from types import SimpleNamespace

import torch
import torch.nn.functional as F
from torch import nn

logging.basicConfig(level=logging.INFO, format="%(message)s")
log = logging.getLogger("ctc")

CFG = SimpleNamespace(phones=9, feats=16, hidden=48, batch=24, steps=140, lr=4e-3, clip=5.0, fp16=True)


class Recogniser(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.inp = nn.Linear(3 * cfg.feats, cfg.hidden)
        self.mid = nn.Sequential(nn.LayerNorm(cfg.hidden), nn.Linear(cfg.hidden, cfg.hidden), nn.ReLU())
        self.out = nn.Linear(cfg.hidden, cfg.phones + 1)

    def forward(self, x):
        ctx = torch.cat([F.pad(x, (0, 0, 1, 0))[:, :-1], x, F.pad(x, (0, 0, 0, 1))[:, 1:]], -1)
        h = torch.relu(self.inp(ctx))
        return self.out(h + self.mid(h))


class Utterances:
    def __init__(self, cfg, seed):
        self.cfg, self.g = cfg, torch.Generator().manual_seed(seed)
        self.sound = 1.5 * torch.randn(cfg.phones + 1, cfg.feats, generator=self.g)

    def rand(self, hi, shape=()):
        return torch.randint(hi, shape, generator=self.g)

    def one(self):
        n = 3 + int(self.rand(4))
        phones = 1 + self.rand(self.cfg.phones, (n,))
        speed = 1 if torch.rand((), generator=self.g) < 0.15 else 2 + int(self.rand(2))
        frames = self.sound[phones].repeat_interleave(speed, 0)
        frames = frames + 0.5 * torch.randn(frames.shape, generator=self.g)
        return frames, phones

    def batch(self):
        items = [self.one() for _ in range(self.cfg.batch)]
        x = nn.utils.rnn.pad_sequence([f for f, _ in items], batch_first=True)
        xl = torch.tensor([len(f) for f, _ in items])
        y = torch.cat([p for _, p in items])
        yl = torch.tensor([len(p) for _, p in items])
        return x, xl, y, yl


def greedy_errors(logp, xl, y, yl):
    wrong, at = 0, 0
    for i in range(len(xl)):
        path = logp[: xl[i], i].argmax(-1).unique_consecutive()
        wrong += int(path[path > 0].tolist() != y[at : at + yl[i]].tolist())
        at += int(yl[i])
    return wrong / len(xl)


def train(cfg):
    torch.manual_seed(0)
    data, net = Utterances(cfg, 0), Recogniser(cfg)
    opt = torch.optim.Adam(net.parameters(), lr=cfg.lr)
    scaler = torch.amp.GradScaler("cpu", enabled=cfg.fp16)
    for step in range(cfg.steps):
        x, xl, y, yl = data.batch()
        opt.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.float16, enabled=cfg.fp16):
            logits = net(x)
        logp = logits.float().log_softmax(-1).transpose(0, 1)
        loss = F.ctc_loss(logp, y, xl, yl, blank=0, zero_infinity=True)
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        nn.utils.clip_grad_norm_(net.parameters(), cfg.clip)
        scaler.step(opt)
        scaler.update()
        if step % 20 == 0 or step == cfg.steps - 1:
            with torch.no_grad():
                each = F.ctc_loss(logp, y, xl, yl, reduction="none")
                ser = greedy_errors(logp, xl, y, yl)
            log.info("step %3d loss %.4f worst %.3f unalignable %d ser %.2f scale %g", step, loss.item(),
                     each.max().item(), int(each.isinf().sum()), ser, scaler.get_scale())


if __name__ == "__main__":
    train(CFG)
