"""Small convolutional denoiser kept in 16 bit to save memory."""
import torch
import torch.nn as nn


class Denoiser(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, width, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(width, 1, 3, padding=1),
        )

    def forward(self, x):
        return x + self.net(x)


def patches(n, size=16):
    low = torch.randn(n, 1, 4, 4)
    clean = nn.functional.interpolate(low, size=(size, size), mode="bilinear", align_corners=False)
    return clean + 0.2 * torch.randn_like(clean), clean


class Trainer:
    def __init__(self, dtype):
        self.dtype = dtype
        self.model = Denoiser().to(dtype)
        self.opt = torch.optim.Adam(self.model.parameters(), lr=1e-3, betas=(0.9, 0.99))
        self.sched = torch.optim.lr_scheduler.ExponentialLR(self.opt, 0.98)

    def fit(self, steps):
        for step in range(steps):
            noisy, clean = patches(16)
            pred = self.model(noisy.to(self.dtype))
            loss = nn.functional.mse_loss(pred.float(), clean)
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            self.sched.step()
            if step % 5 == 0:
                print(f"step {step} loss {loss.item():.5f}")

    @torch.no_grad()
    def validate(self):
        noisy, clean = patches(32)
        return (self.model(noisy.to(self.dtype)).float() - clean).square().mean().item()


if __name__ == "__main__":
    torch.manual_seed(7)
    trainer = Trainer(torch.float16)
    print("val before", round(trainer.validate(), 5))
    trainer.fit(20)
    print("val after", round(trainer.validate(), 5))
