import logging
import math

import torch
import torch.nn.functional as F

from codec import SpeechCodec
from schedule import STAGES, stage_at

logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
log = logging.getLogger("codec")


def voices(g, n, length=512, sr=8000):
    t = torch.arange(length) / sr
    f0 = 100 + 200 * torch.rand(n, 1, generator=g)
    x = sum(torch.rand(n, 1, generator=g) * torch.sin(2 * math.pi * f0 * k * t) for k in (1, 2, 3))
    return 0.3 * x + 0.01 * torch.randn(n, length, generator=g)


class Ema:
    def __init__(self, module, beta=0.95):
        self.beta, self.avg = beta, [p.detach().clone() for p in module.parameters()]

    @torch.no_grad()
    def update(self, module):
        for a, p in zip(self.avg, module.parameters()):
            a.lerp_(p, 1 - self.beta)


def total_loss(stage, wav, rec, cb, commit):
    terms = [stage.rec * F.l1_loss(rec.float(), wav)]
    if stage.codebook:
        terms.append(stage.codebook * cb)
    if stage.commit:
        terms.append(stage.commit * commit)
    return sum(terms)


def main():
    torch.manual_seed(2)
    g = torch.Generator().manual_seed(0)
    net = SpeechCodec()
    ema = Ema(net.decoder)
    auto = torch.optim.AdamW([*net.encoder.parameters(), *net.decoder.parameters()], lr=2e-3)
    codes = torch.optim.Adam(net.rvq.parameters(), lr=1e-2)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 13)
    for step in range(STAGES[-1].until):
        stage = stage_at(step)
        wav = voices(g, 16)
        with torch.autocast("cpu", dtype=torch.float16):
            rec, cb, commit = net(wav)
            loss = total_loss(stage, wav, rec, cb, commit)
        auto.zero_grad(set_to_none=True)
        codes.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.step(auto)
        scaler.step(codes)
        scaler.update()
        ema.update(net.decoder)
        if step % 5 == 0:
            log.info("%s %d loss %.4f scale %g", stage.name, step, loss.item(), scaler.get_scale())


if __name__ == "__main__":
    main()
