"""Denoising autoencoder, encoder and decoder with an optimizer each, AMP float16."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Encoder(nn.Module):
    def __init__(self, zdim=24):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, 12, 4, 2, 1), nn.ReLU(), nn.Conv2d(12, 16, 4, 2, 1), nn.ReLU(),
            nn.Flatten(), nn.Linear(16 * 9, zdim))

    def forward(self, x):
        return self.net(x)


class Decoder(nn.Module):
    def __init__(self, zdim=24):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(zdim, 96), nn.ReLU(), nn.Linear(96, 144))

    def forward(self, z):
        return self.net(z).view(-1, 1, 12, 12)


class Trainer:
    def __init__(self, lr=0.3, max_norm=1.0, device="cpu"):
        self.enc, self.dec = Encoder().to(device), Decoder().to(device)
        self.modules = [self.enc, self.dec]
        self.optimizers = {
            "enc": torch.optim.SGD(self.enc.parameters(), lr=lr, momentum=0.9),
            "dec": torch.optim.SGD(self.dec.parameters(), lr=lr, momentum=0.9)}
        self.scaler = torch.amp.GradScaler(device, init_scale=2.0 ** 15)
        self.max_norm = max_norm
        self.device = device

    def parameters(self):
        for m in self.modules:
            yield from m.parameters()

    def train_batch(self, x):
        noisy = x + 0.2 * torch.randn_like(x)
        with torch.autocast(self.device, dtype=torch.float16):
            rec = self.dec(self.enc(noisy))
            loss = F.mse_loss(rec, x)
        for opt in self.optimizers.values():
            opt.zero_grad()
        self.scaler.scale(loss).backward()
        self.optimize()
        return loss.item()

    def optimize(self):
        for name, opt in self.optimizers.items():
            self.scaler.unscale_(opt)
            torch.nn.utils.clip_grad_norm_(self.parameters(), self.max_norm)
            self.scaler.step(opt)
        self.scaler.update()


def blobs(n, g):
    yy, xx = torch.meshgrid(torch.linspace(-1, 1, 12), torch.linspace(-1, 1, 12), indexing="ij")
    c = torch.rand(n, 2, 1, 1, generator=g) * 1.4 - 0.7
    return (2 * torch.exp(-5 * ((xx - c[:, 0]) ** 2 + (yy - c[:, 1]) ** 2)) - 0.5)[:, None]


def main():
    torch.manual_seed(21)
    g = torch.Generator().manual_seed(4)
    data = blobs(512, g)
    trainer = Trainer()
    for epoch in range(12):
        perm = torch.randperm(len(data), generator=g)
        losses = [trainer.train_batch(data[i]) for i in perm.split(64)]
        print(f"epoch {epoch:2d} loss {sum(losses) / len(losses):.4f} scale {trainer.scaler.get_scale():.0f}")
    print("data variance %.4f" % data.var(0).mean().item())


if __name__ == "__main__":
    main()
