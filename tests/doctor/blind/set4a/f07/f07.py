"""Image inpainting with a small CNN and an isotropic total-variation prior (bfloat16)."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def cartoon(n, size, gen):
    """Piecewise constant pictures: some rectangles on black."""
    img = torch.zeros(n, 1, size, size)
    for k in range(n):
        for _ in range(3):
            y, x = torch.randint(0, size - 8, (2,), generator=gen).tolist()
            h, w = torch.randint(4, 14, (2,), generator=gen).tolist()
            img[k, 0, y : y + h, x : x + w] = torch.rand(1, generator=gen)
    return img


def total_variation(img):
    dy = img[..., 1:, :-1] - img[..., :-1, :-1]
    dx = img[..., :-1, 1:] - img[..., :-1, :-1]
    return torch.sqrt(dx.pow(2) + dy.pow(2)).mean()


class Inpainter(nn.Module):
    def __init__(self, width=24, depth=4):
        super().__init__()
        layers = [nn.Conv2d(1, width, 3, padding=1), nn.ReLU()]
        for _ in range(depth - 2):
            layers += [nn.Conv2d(width, width, 3, padding=1), nn.GroupNorm(4, width), nn.ReLU()]
        layers += [nn.Conv2d(width, 1, 3, padding=1)]
        self.net = nn.Sequential(*layers)

    def forward(self, damaged):
        return self.net(damaged)


def psnr(a, b):
    return -10 * torch.log10(F.mse_loss(a, b))


def train(steps=60, batch=12, size=28, tv_weight=0.02):
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(7)
    model = Inpainter()
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    sched = torch.optim.lr_scheduler.StepLR(opt, 25, 0.5)
    for step in range(steps):
        clean = cartoon(batch, size, gen)
        keep = torch.ones_like(clean)
        y, x = torch.randint(0, size - 6, (2,), generator=gen).tolist()
        keep[..., y : y + 6, x : x + 6] = 0
        opt.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            restored = model(clean * keep)
        restored = restored.float()
        fidelity = F.l1_loss(restored, clean)
        loss = fidelity + tv_weight * total_variation(restored)
        loss.backward()
        opt.step()
        sched.step()
        if step % 10 == 0:
            print(f"{step:4d} fidelity {fidelity.item():.4f} psnr {psnr(restored.detach(), clean).item():.2f}")
    return model


if __name__ == "__main__":
    train()
