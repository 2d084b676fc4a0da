"""Speaker embeddings with a batch-hard triplet loss (P speakers x K utterances)."""
import torch
import torch.nn.functional as F
from torch import nn

CFG = {"speakers": 24, "P": 8, "K": 4, "frames": 40, "n_mels": 20, "dim": 32, "margin": 0.3, "steps": 90, "lr": 1e-3}


class SpeakerNet(nn.Module):
    def __init__(self, n_mels, dim):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv1d(n_mels, 64, 5, padding=2), nn.ReLU(),
            nn.Conv1d(64, 64, 3, padding=1), nn.ReLU(),
        )
        self.embed = nn.Linear(128, dim)

    def forward(self, x):
        h = self.conv(x)
        stats = torch.cat([h.mean(-1), h.amax(-1)], -1)
        return self.embed(stats)


class BatchHardTriplet(nn.Module):
    def __init__(self, margin):
        super().__init__()
        self.margin = margin

    @staticmethod
    def distances(x):
        diff = x[:, None, :] - x[None, :, :]
        return diff.square().sum(-1).sqrt()

    def forward(self, emb, labels):
        d = self.distances(emb)
        same = labels[:, None] == labels[None, :]
        eye = torch.eye(len(labels), dtype=torch.bool)
        pos = d.masked_fill(~same | eye, 0.0).amax(1)
        neg = d.masked_fill(same, 1e4).amin(1)
        return F.relu(pos - neg + self.margin).mean(), (pos < neg).float().mean()


class Speakers:
    def __init__(self, cfg, seed=0):
        self.cfg = cfg
        self.g = torch.Generator().manual_seed(seed)
        self.voice = torch.randn(cfg["speakers"], cfg["n_mels"], 1, generator=self.g)

    def sample(self):
        c = self.cfg
        ids = torch.randperm(c["speakers"], generator=self.g)[: c["P"]].repeat_interleave(c["K"])
        shape = (len(ids), c["n_mels"], c["frames"])
        channel = 0.5 * torch.randn(len(ids), c["n_mels"], 1, generator=self.g)
        return self.voice[ids] + channel + torch.randn(shape, generator=self.g), ids


class Trainer:
    def __init__(self, cfg):
        torch.manual_seed(0)
        self.cfg, self.data = cfg, Speakers(cfg)
        self.net = SpeakerNet(cfg["n_mels"], cfg["dim"])
        self.criterion = BatchHardTriplet(cfg["margin"])
        self.opt = torch.optim.Adam(self.net.parameters(), lr=cfg["lr"])
        self.sched = torch.optim.lr_scheduler.CosineAnnealingLR(self.opt, cfg["steps"])
        self.scaler = torch.amp.GradScaler("cpu")

    def step(self):
        x, y = self.data.sample()
        self.opt.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.float16):
            emb = self.net(x)
        loss, ranked = self.criterion(emb.float(), y)
        self.scaler.scale(loss).backward()
        before = self.scaler.get_scale()
        self.scaler.step(self.opt)
        self.scaler.update()
        if self.scaler.get_scale() >= before:
            self.sched.step()
        return loss.item(), ranked.item()

    def run(self):
        for i in range(self.cfg["steps"]):
            loss, ranked = self.step()
            if i % 15 == 0 or i == self.cfg["steps"] - 1:
                print(f"{i:4d} loss {loss:.4f} ranked {ranked:.2f} scale {self.scaler.get_scale():g}")


if __name__ == "__main__":
    Trainer(CFG).run()
