"""3D patch segmentation: high starting scale, one-cycle schedule tied to real updates, resume in the middle."""
import io
import logging

import torch
import torch.nn as nn
import torch.nn.functional as F

log = logging.getLogger(__name__)

CFG = {
    "patch": 16,
    "batch": 3,
    "iters": 50,
    "max_lr": 2e-2,
    "init_scale": 2.0 ** 26,
    "growth_interval": 12,
    "checkpoint_at": 25,
}


def patch(cfg, g):
    n, s = cfg["batch"], cfg["patch"]
    ax = torch.arange(s).float()
    c = 4 + 8 * torch.rand(n, 3, generator=g)
    r = 3 + 2 * torch.rand(n, 1, 1, 1, generator=g)
    d2 = (ax[None, :, None, None] - c[:, 0, None, None, None]) ** 2 + (ax[None, None, :, None] - c[:, 1, None, None, None]) ** 2 + (ax[None, None, None, :] - c[:, 2, None, None, None]) ** 2
    mask = (d2 < r ** 2).float()[:, None]
    return mask + 0.5 * torch.randn(mask.shape, generator=g), mask


class VNetLite(nn.Module):
    def __init__(self, w=6):
        super().__init__()
        self.a = nn.Conv3d(1, w, 3, padding=1)
        self.b = nn.Conv3d(w, w, 3, stride=2, padding=1)
        self.up = nn.ConvTranspose3d(w, w, 2, stride=2)
        self.out = nn.Conv3d(w, 1, 1)

    def forward(self, x):
        a = F.leaky_relu(self.a(x), 0.1)
        return self.out(a + self.up(F.leaky_relu(self.b(a), 0.1)))


def criterion(logits, mask):
    p = logits.float().sigmoid()
    dice = 1 - (2 * (p * mask).sum() + 1) / (p.sum() + mask.sum() + 1)
    return dice + F.binary_cross_entropy_with_logits(logits.float(), mask)


class Session:
    def __init__(self, cfg):
        self.cfg = cfg
        self.net = VNetLite()
        self.opt = torch.optim.AdamW(self.net.parameters(), lr=cfg["max_lr"])
        self.sched = torch.optim.lr_scheduler.OneCycleLR(self.opt, cfg["max_lr"], total_steps=cfg["iters"] + 1)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=cfg["init_scale"], growth_interval=cfg["growth_interval"])
        self.parts = ("net", "opt", "sched", "scaler")

    def save(self):
        buf = io.BytesIO()
        torch.save({k: getattr(self, k).state_dict() for k in self.parts}, buf)
        buf.seek(0)
        return buf

    def load(self, buf):
        state = torch.load(buf, weights_only=False)
        for k in self.parts:
            getattr(self, k).load_state_dict(state[k])

    def step(self, vol, mask):
        self.opt.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.float16):
            logits = self.net(vol)
        loss = criterion(logits, mask)
        self.scaler.scale(loss).backward()
        before = self.scaler.get_scale()
        self.scaler.step(self.opt)
        self.scaler.update()
        moved = self.scaler.get_scale() >= before
        if moved:
            self.sched.step()
        return loss.item(), moved


def main():
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    torch.manual_seed(0)
    g = torch.Generator().manual_seed(0)
    session, skipped, trace = Session(CFG), 0, []
    for it in range(1, CFG["iters"] + 1):
        loss, moved = session.step(*patch(CFG, g))
        skipped += not moved
        trace.append(loss)
        if it == CFG["checkpoint_at"]:
            blob = session.save()
            session = Session(CFG)
            session.load(blob)
            log.info("resumed at %d with scale %g", it, session.scaler.get_scale())
        if it % 5 == 0:
            log.info("it %d loss %.4f skipped %d scale %g lr %.2e", it, sum(trace[-5:]) / 5, skipped, session.scaler.get_scale(), session.opt.param_groups[0]["lr"])


if __name__ == "__main__":
    main()
