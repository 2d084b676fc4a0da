"""Multi-task assay regression with many absent labels, and a VAE branch on padded fingerprints."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

TASKS, FEATS = 4, 16
NAN = float("nan")


class Assays(Dataset):
    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        w = torch.randn(FEATS, TASKS, generator=torch.Generator().manual_seed(0)) / 4
        self.x = torch.randn(n, FEATS, generator=g)
        self.y = torch.exp(self.x @ w)
        self.y[torch.rand(n, TASKS, generator=g) < 0.6] = NAN
        self.y[:, 3] = torch.where(torch.rand(n, generator=g) < 0.2, torch.zeros(n), self.y[:, 3])
        self.length = torch.randint(6, FEATS + 1, (n,), generator=g)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], self.y[i], self.length[i]


def collate(items):
    x, y, length = (torch.stack(t) for t in zip(*items))
    tail = torch.arange(FEATS)[None] >= length[:, None]
    seq = x.masked_fill(tail, NAN)
    return x, y, seq


def log_target(y):
    """log y where y is positive; the rest is not used."""
    ok = y > 0
    return torch.log(torch.where(ok, y, torch.ones_like(y))), ok


class Model(nn.Module):
    def __init__(self, hidden=48, latent=6):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(FEATS, hidden), nn.SiLU(), nn.Linear(hidden, hidden), nn.SiLU())
        self.tasks = nn.Linear(hidden, TASKS)
        self.enc = nn.Linear(FEATS, 2 * latent)
        self.dec = nn.Linear(latent, FEATS)

    def forward(self, x, seq):
        mu, logvar = self.enc(torch.nan_to_num(seq, nan=0.0)).chunk(2, -1)
        logvar = logvar.clamp(-8, 8)
        z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
        kl = -0.5 * (1 + logvar - mu ** 2 - logvar.exp()).sum(-1).mean()
        return self.tasks(self.body(x)), self.dec(z), kl


def masked_mse(pred, target, ok):
    per = F.mse_loss(pred, torch.where(ok, target, pred.detach()), reduction="none")
    return per.sum() / ok.sum().clamp(min=1)


def reconstruction(rec, seq):
    raw = (rec.detach() - seq) ** 2
    here = ~torch.isnan(raw)
    diff = torch.where(here, rec - torch.nan_to_num(seq), torch.zeros_like(rec))
    return (diff ** 2).sum() / here.sum()


def main():
    torch.manual_seed(0)
    train = DataLoader(Assays(384, 1), batch_size=32, shuffle=True, collate_fn=collate)
    model = Model()
    opt = torch.optim.Adam(model.parameters(), lr=4e-3)
    for epoch in range(8):
        logs = torch.zeros(3)
        for x, y, seq in train:
            pred, rec, kl = model(x, seq)
            target, ok = log_target(y)
            a, b = masked_mse(pred, target, ok), reconstruction(rec, seq)
            loss = a + 0.3 * b + 0.01 * kl
            opt.zero_grad()
            loss.backward()
            opt.step()
            logs += torch.stack([a, b, kl]).detach()
        a, b, kl = (logs / len(train)).tolist()
        print(f"epoch {epoch} assay {a:.4f} rec {b:.4f} kl {kl:.4f} "
              f"mean label {torch.nanmean(y).item():.3f}")


if __name__ == "__main__":
    main()
