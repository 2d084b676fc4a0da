import argparse
import json

import torch
import torch.nn as nn
import torch.nn.functional as F

DEFAULTS = {
    "steps": 120,
    "batch": 4,
    "lr": 1e-3,
    "amp": {"init_scale": 1024.0, "growth_factor": 16.0, "backoff_factor": 0.5, "growth_interval": 2},
}


class ESPCN(nn.Module):
    def __init__(self, up=2, ch=32):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, ch, 5, padding=2), nn.Tanh(),
            nn.Conv2d(ch, ch, 3, padding=1), nn.Tanh(),
            nn.Conv2d(ch, up * up, 3, padding=1),
        )
        self.shuffle = nn.PixelShuffle(up)

    def forward(self, x):
        return self.shuffle(self.body(x))


class SRTrainer:
    def __init__(self, cfg):
        self.cfg = cfg
        self.net = ESPCN()
        self.opt = torch.optim.Adam(self.net.parameters(), lr=cfg["lr"])
        self.scaler = self.make_scaler(cfg["amp"])
        self.gen = torch.Generator().manual_seed(4)

    @staticmethod
    def make_scaler(amp):
        return torch.amp.GradScaler(
            "cpu",
            init_scale=amp["init_scale"],
            growth_factor=amp["growth_factor"],
            backoff_factor=amp["backoff_factor"],
            growth_interval=amp["growth_interval"],
        )

    def images(self):
        n, s = self.cfg["batch"], 32
        yy, xx = torch.meshgrid(torch.linspace(0, 1, s), torch.linspace(0, 1, s), indexing="ij")
        k = 4 + 14 * torch.rand(n, 2, 1, 1, generator=self.gen)
        hi = 0.5 + 0.25 * torch.sin(k[:, 0] * xx) + 0.25 * torch.cos(k[:, 1] * yy)
        hi = hi.unsqueeze(1)
        return F.avg_pool2d(hi, 2), hi

    def step(self):
        lo, hi = self.images()
        self.opt.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.float16):
            sr = self.net(lo)
            loss = F.mse_loss(sr, hi)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.opt)
        self.scaler.update()
        return loss.item()

    def run(self):
        for i in range(self.cfg["steps"]):
            loss = self.step()
            if i % 10 == 0:
                psnr = -10 * torch.log10(torch.tensor(loss)).item()
                print(json.dumps({"step": i, "loss": round(loss, 5), "psnr": round(psnr, 2), "scale": self.scaler.get_scale()}))


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--config", default=None, help="json file with values other than the defaults")
    ap.add_argument("--steps", type=int, default=None)
    ns = ap.parse_args()
    config = dict(DEFAULTS)
    if ns.config:
        config.update(json.load(open(ns.config)))
    if ns.steps:
        config["steps"] = ns.steps
    torch.manual_seed(4)
    SRTrainer(config).run()
