"""SimSiam pretraining on synthetic crops, half precision, settings in a dict."""
import copy
import torch
import torch.nn as nn
import torch.nn.functional as F

CFG = {
    "steps": 60,
    "batch": 32,
    "lr": 0.05,
    "momentum": 0.9,
    "amp": {"init_scale": 2.0 ** 12, "floor": 2.0 ** 22, "growth_interval": 500},
}


def views(x, gen):
    out = []
    for _ in range(2):
        gain = 0.7 + 0.6 * torch.rand(len(x), 1, 1, 1, generator=gen)
        v = x * gain + 0.2 * torch.randn(x.shape, generator=gen)
        if torch.rand(1, generator=gen) < 0.5:
            v = v.flip(-1)
        out.append(v)
    return out


class SimSiam(nn.Module):
    def __init__(self, c=16, d=32):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(1, c, 3, 2, 1, bias=False), nn.BatchNorm2d(c), nn.ReLU(),
            nn.Conv2d(c, d, 3, 2, 1, bias=False), nn.BatchNorm2d(d), nn.ReLU(),
            nn.AdaptiveAvgPool2d(2), nn.Flatten())
        self.projector = nn.Sequential(nn.Linear(4 * d, d), nn.BatchNorm1d(d), nn.ReLU(), nn.Linear(d, d), nn.BatchNorm1d(d))
        self.predictor = nn.Sequential(nn.Linear(d, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, d))

    def forward(self, a, b):
        za, zb = self.projector(self.encoder(a)), self.projector(self.encoder(b))
        return self.predictor(za), self.predictor(zb), za.detach(), zb.detach()


def similarity(p, z):
    return F.cosine_similarity(p.float(), z.float(), dim=1).mean()


class AmpLoop:
    def __init__(self, model, cfg):
        self.model, self.cfg = model, cfg
        self.opt = torch.optim.SGD(model.parameters(), lr=cfg["lr"], momentum=cfg["momentum"])
        amp = cfg["amp"]
        self.floor = amp["floor"]
        self.scaler = torch.amp.GradScaler("cpu", init_scale=amp["init_scale"], growth_interval=amp["growth_interval"])

    def refresh(self):
        self.scaler.update()
        if self.scaler.get_scale() < self.floor:
            self.scaler.update(self.floor)

    def step(self, a, b):
        with torch.autocast("cpu", dtype=torch.float16):
            pa, pb, za, zb = self.model(a, b)
            loss = -0.5 * (similarity(pa, zb) + similarity(pb, za))
        self.opt.zero_grad()
        self.scaler.scale(loss).backward()
        self.scaler.step(self.opt)
        self.refresh()
        return loss.item()


def main():
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(3)
    proto = F.interpolate(torch.randn(10, 1, 4, 4, generator=gen), size=12, mode="bilinear")
    loop = AmpLoop(SimSiam(), CFG)
    start = copy.deepcopy(loop.model.state_dict())
    for s in range(CFG["steps"]):
        y = torch.randint(0, 10, (CFG["batch"],), generator=gen)
        loss = loop.step(*views(proto[y], gen))
        if s % 10 == 0 or s == CFG["steps"] - 1:
            moved = sum((p - start[n]).norm().item() for n, p in loop.model.named_parameters())
            print(f"{s} loss {loss:.4f} moved {moved:.4f} scale {loop.scaler.get_scale():g}")


main()
