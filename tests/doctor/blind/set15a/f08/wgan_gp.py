"""WGAN-GP on 16x16 shapes, with mixed precision."""
import torch
import torch.nn as nn

torch.manual_seed(21)

NZ, SIZE, BATCH = 16, 16, 16
N_CRITIC = 2
LAMBDA_GP = 10.0


class Generator(nn.Module):
    def __init__(self, nf=12):
        super().__init__()
        self.fc = nn.Linear(NZ, nf * 16)
        self.net = nn.Sequential(
            nn.GroupNorm(4, nf), nn.ReLU(),
            nn.Upsample(scale_factor=2), nn.Conv2d(nf, nf, 3, padding=1), nn.GroupNorm(4, nf), nn.ReLU(),
            nn.Upsample(scale_factor=2), nn.Conv2d(nf, 1, 3, padding=1), nn.Tanh(),
        )
        self.nf = nf

    def forward(self, z):
        return self.net(self.fc(z).view(-1, self.nf, 4, 4))


class Critic(nn.Module):
    def __init__(self, nf=12):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, nf, 4, 2, 1), nn.LeakyReLU(0.2),
            nn.Conv2d(nf, 2 * nf, 4, 2, 1), nn.LeakyReLU(0.2),
            nn.Flatten(), nn.Linear(2 * nf * 16, 1),
        )

    def forward(self, x):
        return self.net(x).squeeze(1)


def real_batch(n=BATCH):
    yy, xx = torch.meshgrid(torch.arange(SIZE).float(), torch.arange(SIZE).float(), indexing="ij")
    c = torch.rand(n, 2, 1, 1) * 8 + 4
    r = torch.rand(n, 1, 1) * 3 + 2
    d = ((yy - c[:, 0]) ** 2 + (xx - c[:, 1]) ** 2).sqrt()
    return (torch.sigmoid(2 * (r - d)) * 2 - 1)[:, None]


def gradient_penalty(critic, scaler, real, fake):
    eps = torch.rand(real.size(0), 1, 1, 1)
    x = (eps * real + (1 - eps) * fake).requires_grad_(True)
    with torch.autocast("cpu", dtype=torch.float16):
        score = critic(x)
    # scaled so that small gradients survive half precision
    grads = torch.autograd.grad(
        outputs=scaler.scale(score.float().sum()),
        inputs=x,
        create_graph=True,
    )[0]
    norm = grads.flatten(1).norm(2, dim=1)
    return ((norm - 1) ** 2).mean()


G, D = Generator(), Critic()
opt_g = torch.optim.Adam(G.parameters(), lr=1e-3, betas=(0.0, 0.9))
opt_d = torch.optim.Adam(D.parameters(), lr=1e-3, betas=(0.0, 0.9))
scaler = torch.amp.GradScaler("cpu", init_scale=4096.0)

for it in range(28):
    for _ in range(N_CRITIC):
        real = real_batch()
        with torch.autocast("cpu", dtype=torch.float16):
            with torch.no_grad():
                fake = G(torch.randn(BATCH, NZ))
            loss_w = D(fake).float().mean() - D(real).float().mean()
        gp = gradient_penalty(D, scaler, real, fake.float())
        loss_d = loss_w + LAMBDA_GP * gp
        opt_d.zero_grad()
        scaler.scale(loss_d).backward()
        scaler.step(opt_d)
        scaler.update()

    with torch.autocast("cpu", dtype=torch.float16):
        loss_g = -D(G(torch.randn(BATCH, NZ))).float().mean()
    opt_g.zero_grad()
    scaler.scale(loss_g).backward()
    scaler.step(opt_g)
    scaler.update()
    if it % 3 == 0:
        print(f"{it:3d}  W {-loss_w.item():.4f}  gp {gp.item():.4g}  G {loss_g.item():.4f}  scale {scaler.get_scale():g}")
