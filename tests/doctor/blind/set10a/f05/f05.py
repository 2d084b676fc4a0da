"""Acoustic anomaly detection: train an autoencoder on normal machine sounds."""
import logging
import warnings

import torch
from torch import nn
from torch.utils.data import DataLoader, random_split

from dataset import MachineSounds

warnings.filterwarnings("ignore", category=RuntimeWarning)
logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
log = logging.getLogger("anomaly")


class AutoEncoder(nn.Module):
    def __init__(self, n_in=128, width=96, code=8):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(n_in, width), nn.LayerNorm(width), nn.GELU(),
                                 nn.Linear(width, width), nn.GELU(), nn.Linear(width, code))
        self.dec = nn.Sequential(nn.Linear(code, width), nn.GELU(),
                                 nn.Linear(width, width), nn.GELU(), nn.Linear(width, n_in))

    def forward(self, x):
        return self.dec(self.enc(x))


class Trainer:
    def __init__(self, model, lr=1e-3, clip=1.0):
        self.model, self.clip = model, clip
        self.opt = torch.optim.AdamW(model.parameters(), lr=lr)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 12)

    def step(self, x):
        with torch.autocast("cpu", dtype=torch.float16):
            rec = self.model(x)
        loss = nn.functional.mse_loss(rec.float(), x)
        self.opt.zero_grad(set_to_none=True)
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.opt)
        nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        self.scaler.step(self.opt)
        self.scaler.update()
        return loss.item()

    @torch.no_grad()
    def score(self, loader):
        self.model.eval()
        errs = [((self.model(x) - x) ** 2).mean(1) for x in loader]
        self.model.train()
        return torch.cat(errs).mean().item()


def main():
    torch.manual_seed(21)
    full = MachineSounds(recordings=30, seed=4)
    n_val = len(full) // 8
    train, val = random_split(full, [len(full) - n_val, n_val], torch.Generator().manual_seed(0))
    train_loader = DataLoader(train, batch_size=32, shuffle=True)
    val_loader = DataLoader(val, batch_size=64)
    trainer = Trainer(AutoEncoder())
    for epoch in range(5):
        losses = [trainer.step(x) for x in train_loader]
        log.info("epoch %d train %.4f val %.4f scale %g", epoch, sum(losses) / len(losses),
                 trainer.score(val_loader), trainer.scaler.get_scale())


if __name__ == "__main__":
    main()
