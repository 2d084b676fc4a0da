import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class VAE(nn.Module):
    def __init__(self, d=64, h=64, z=6):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(d, h), nn.ReLU(), nn.Linear(h, 2 * z))
        self.dec = nn.Sequential(nn.Linear(z, h), nn.ReLU(), nn.Linear(h, d))

    def forward(self, x):
        mu, logvar = self.enc(x).float().chunk(2, dim=-1)
        z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
        return self.dec(z), mu, logvar


def elbo(logits, x, mu, logvar):
    rec = F.binary_cross_entropy_with_logits(logits.float(), x, reduction="sum")
    kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum()
    return rec + kl


def blobs(n):
    """8x8 pictures with one bright bar."""
    img = torch.full((n, 8, 8), 0.05)
    where = torch.randint(0, 8, (n,))
    flip = torch.rand(n) < 0.5
    for i in range(n):
        if flip[i]:
            img[i, where[i]] = 0.95
        else:
            img[i, :, where[i]] = 0.95
    return img.flatten(1)


def train_epoch(model, loader, opt):
    scaler = torch.amp.GradScaler("cpu")
    model.train()
    total = 0.0
    for (x,) in loader:
        opt.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            logits, mu, logvar = model(x)
            loss = elbo(logits, x, mu, logvar)
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        total += loss.item()
    return total / len(loader.dataset)


@torch.no_grad()
def evaluate(model, x):
    model.eval()
    logits, mu, logvar = model(x)
    return elbo(logits, x, mu, logvar).item() / len(x)


def main():
    torch.manual_seed(0)
    train, valid = blobs(640), blobs(128)
    loader = DataLoader(TensorDataset(train), batch_size=128, shuffle=True)
    model = VAE()
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(20):
        tr = train_epoch(model, loader, opt)
        if epoch % 4 == 3:
            print(f"epoch {epoch + 1}: train {tr:.2f} valid {evaluate(model, valid):.2f}")


if __name__ == "__main__":
    main()
