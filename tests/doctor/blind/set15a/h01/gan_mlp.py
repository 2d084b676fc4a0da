"""Small MLP GAN on 12x12 shapes in float16; one scaler for each network."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(17)

S, NZ, B = 12, 12, 48


def mlp(i, h, o, norm=False):
    layers = [nn.Linear(i, h)]
    if norm:
        layers.append(nn.LayerNorm(h))
    layers += [nn.LeakyReLU(0.2), nn.Linear(h, h), nn.LeakyReLU(0.2), nn.Linear(h, o)]
    return nn.Sequential(*layers)


G = mlp(NZ, 96, S * S, norm=True)
D = mlp(S * S, 96, 1)
opt_g = torch.optim.Adam(G.parameters(), lr=1e-3, betas=(0.5, 0.99))
opt_d = torch.optim.Adam(D.parameters(), lr=5e-4, betas=(0.5, 0.99))
# start high: the first few steps are given up until the scale fits
scaler_g = torch.amp.GradScaler("cpu", init_scale=2.0 ** 24, growth_interval=60)
scaler_d = torch.amp.GradScaler("cpu", init_scale=2.0 ** 22, growth_interval=60)


def real_samples(n=B):
    t = torch.arange(S).float()
    c = torch.rand(n, 2) * 6 + 3
    dy = (t[None] - c[:, :1]).abs()[:, :, None]
    dx = (t[None] - c[:, 1:]).abs()[:, None, :]
    return (torch.sigmoid(2.5 - torch.maximum(dy, dx)) * 2 - 1).flatten(1)


def update(loss, net, opt, scaler, max_norm=5.0):
    opt.zero_grad(set_to_none=True)
    scaler.scale(loss).backward()
    scaler.unscale_(opt)
    norm = nn.utils.clip_grad_norm_(net.parameters(), max_norm)
    before = scaler.get_scale()
    scaler.step(opt)
    scaler.update()
    return norm.item(), scaler.get_scale() < before


skipped = {"g": 0, "d": 0}
for it in range(160):
    real = real_samples()
    z = torch.randn(B, NZ)

    # critic
    with torch.autocast("cpu", dtype=torch.float16):
        with torch.no_grad():
            fake = torch.tanh(G(z))
        out_r, out_f = D(real), D(fake)
    loss_d = F.softplus(-out_r.float()).mean() + F.softplus(out_f.float()).mean()
    norm_d, bad = update(loss_d, D, opt_d, scaler_d)
    skipped["d"] += bad

    # generator; the critic only passes gradients through
    D.requires_grad_(False)
    with torch.autocast("cpu", dtype=torch.float16):
        out = D(torch.tanh(G(z)))
    loss_g = F.softplus(-out.float()).mean()
    norm_g, bad = update(loss_g, G, opt_g, scaler_g)
    D.requires_grad_(True)
    skipped["g"] += bad

    if it < 12 or it % 20 == 0:
        print(f"{it:3d} D {loss_d.item():.3f} (norm {norm_d:.3f}) G {loss_g.item():.3f} (norm {norm_g:.3f}) "
              f"scales {scaler_d.get_scale():g} {scaler_g.get_scale():g} skipped {skipped}")
