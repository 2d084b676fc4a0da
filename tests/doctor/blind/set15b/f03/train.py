import torch
import torch.nn as nn
import torch.nn.functional as F

from config import get_args, get_precision


def fake_speech(n, bins, frames, gen):
    """Magnitude spectrograms of int16-normalised quiet speech: values of about 1e-2."""
    t = torch.arange(frames).float()
    f = torch.arange(bins).float()
    out = torch.zeros(n, bins, frames)
    for i in range(n):
        f0 = 4 + 4 * torch.rand(1, generator=gen)
        env = torch.relu(torch.sin(t / (4 + 8 * torch.rand(1, generator=gen))))
        harm = torch.exp(-((f % f0) ** 2)) * torch.exp(-f / 30)
        out[i] = 0.02 * harm[:, None] * env[None]
    noise = 0.006 * torch.rand(n, bins, frames, generator=gen)
    return out, out + noise


class Denoiser(nn.Module):
    def __init__(self, bins, ch=40):
        super().__init__()
        self.inp = nn.Conv1d(bins, ch, 5, padding=2)
        self.blocks = nn.ModuleList(
            nn.Conv1d(ch, ch, 3, padding=d, dilation=d) for d in (1, 2, 4))
        self.out = nn.Conv1d(ch, bins, 1)

    def forward(self, mag):
        x = torch.log(mag + 1e-4)
        x = (x + 5.5) / 1.5
        h = F.relu(self.inp(x))
        for b in self.blocks:
            h = h + F.relu(b(h))
        return torch.sigmoid(self.out(h))


def main():
    args = get_args()
    prec = get_precision(args.precision)
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    gen = torch.Generator().manual_seed(args.seed)
    clean, noisy = fake_speech(96, args.bins, args.frames, gen)

    model = Denoiser(args.bins)
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 18, enabled=prec.use_scaler)
    n_batches = 12
    base = F.mse_loss(noisy, clean).item()
    print(f"precision {prec.name}; mse of the noisy input {base:.3e}")

    for epoch in range(args.epochs):
        perm = torch.randperm(len(clean), generator=gen).chunk(n_batches)
        total = 0.0
        for i, idx in enumerate(perm):
            with torch.autocast("cpu", dtype=prec.dtype, enabled=prec.name != "fp32"):
                mask = model(noisy[idx])
                est = mask * noisy[idx]
                loss = F.mse_loss(est, clean[idx])
            scaler.scale(loss / args.accum).backward()
            total += loss.item()
            if (i + 1) % args.accum == 0:
                scaler.unscale_(opt)
                gn = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                scaler.step(opt)
                scaler.update()
                opt.zero_grad()
        print(f"epoch {epoch} mse {total / n_batches:.4e} grad norm {gn:.2e}")


if __name__ == "__main__":
    main()
