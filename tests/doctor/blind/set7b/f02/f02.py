# Fit a small emulator of stellar spectra to noisy observations, chi-square objective.
import torch
import torch.nn as nn

torch.manual_seed(11)

N_STARS, N_PIX, N_PAR = 512, 64, 3
EPOCHS, BATCH = 6, 64

labels = torch.rand(N_STARS, N_PAR) * 2 - 1
wave = torch.linspace(0, 1, N_PIX)
centers = torch.tensor([0.2, 0.5, 0.8])
lines = torch.exp(-((wave[None] - centers[:, None]) / 0.05) ** 2)
flux_true = 1.0 - (0.3 + 0.2 * labels) @ lines
flux_err = torch.full_like(flux_true, 2e-3) * (1 + torch.rand(N_STARS, 1))
flux = flux_true + flux_err * torch.randn_like(flux_true)


class Emulator(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(N_PAR, width), nn.GELU(),
            nn.Linear(width, width), nn.GELU(),
        )
        self.continuum = nn.Parameter(torch.ones(N_PIX))
        self.depth = nn.Linear(width, N_PIX)

    def forward(self, lab):
        return self.continuum - self.depth(self.body(lab))


def chi_square(model_flux, obs, err):
    resid = (model_flux - obs) / err
    return (resid ** 2).sum()


emulator = Emulator()
optim = torch.optim.Adam(emulator.parameters(), lr=2e-3)

for epoch in range(EPOCHS):
    order = torch.randperm(N_STARS)
    running = 0.0
    for k in range(0, N_STARS, BATCH):
        idx = order[k:k + BATCH]
        with torch.autocast("cpu", dtype=torch.float16):
            spec = emulator(labels[idx])
        objective = chi_square(spec.float(), flux[idx], flux_err[idx])
        optim.zero_grad(set_to_none=True)
        objective.backward()
        optim.step()
        running += objective.item()
    dof = N_STARS * N_PIX
    print(f"epoch {epoch}: chi2/dof = {running / dof:.3f}")

with torch.no_grad():
    err = (emulator(labels) - flux_true).abs().mean()
print("mean absolute flux error", err.item())
