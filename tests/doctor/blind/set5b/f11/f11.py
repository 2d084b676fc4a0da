"""Neural operator for a heat equation: learn the temperature increments of one
short time step (SI units, so they are small)."""
import torch
import torch.nn as nn

USE_GPU = torch.cuda.is_available()
DEVICE = torch.device("cuda" if USE_GPU else "cpu")


def simulate(n, points=48, dt=2e-5, seed=0):
    g = torch.Generator().manual_seed(seed)
    x = torch.linspace(0, 1, points)
    k = torch.arange(1, 5).float()
    amp = torch.randn(n, 4, generator=g) / k
    u = (amp[:, :, None] * torch.sin(k[:, None] * torch.pi * x)).sum(1)
    du = (-(k * torch.pi) ** 2 * amp)[:, :, None] * torch.sin(k[:, None] * torch.pi * x)
    return u, du.sum(1) * dt


class Operator(nn.Module):
    def __init__(self, channels=24):
        super().__init__()
        self.net = nn.Sequential(nn.Conv1d(1, channels, 5, padding=2), nn.GELU(),
                                 nn.Conv1d(channels, channels, 5, padding=2), nn.GELU(),
                                 nn.Conv1d(channels, 1, 5, padding=2))
        self.gain = 1e-3

    def forward(self, u):
        return self.net(u[:, None]).squeeze(1) * self.gain


class Fitter:
    def __init__(self, model, lr=1e-2, amp=True):
        self.model = model.to(DEVICE)
        self.amp = amp
        self.opt = torch.optim.SGD(self.model.parameters(), lr=lr, momentum=0.9)
        self.scaler = torch.amp.GradScaler(DEVICE.type, enabled=amp and USE_GPU)

    def loss(self, u, du):
        with torch.autocast(DEVICE.type, dtype=torch.float16, enabled=self.amp):
            out = self.model(u)
            return nn.functional.mse_loss(out, du)

    def fit(self, u, du, steps, batch=64):
        first = None
        for step in range(steps):
            i = torch.randint(0, len(u), (batch,))
            loss = self.loss(u[i].to(DEVICE), du[i].to(DEVICE))
            self.opt.zero_grad(set_to_none=True)
            self.scaler.scale(loss).backward()
            self.scaler.step(self.opt)
            self.scaler.update()
            first = first or loss.item()
            if step % 20 == 0:
                print(f"{step:4d}  mse {loss.item():.3e}  relative {loss.item() / first:.3f}")


def main():
    torch.manual_seed(4)
    u, du = simulate(512)
    model = Operator()
    start = [p.detach().clone() for p in model.parameters()]
    fitter = Fitter(model, lr=2e3)
    fitter.fit(u, du, steps=100)
    moved = max((a - b).abs().max().item() for a, b in zip(start, model.parameters()))
    print(f"largest change of a weight {moved:.2e}")


if __name__ == "__main__":
    main()
