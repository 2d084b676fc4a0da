import torch

from clip_like import DualEncoder, ntxent, pair_loss
from state import Checkpointer, Ema

STEPS, BREAK_AT, BATCH = 70, 35, 32


def stream(seed):
    g = torch.Generator().manual_seed(seed)
    wa, wb = torch.randn(12, 32, generator=g), torch.randn(12, 48, generator=g)
    while True:
        z = torch.randn(BATCH, 12, generator=g)
        xa, xb = z @ wa, z @ wb
        yield (xa + 0.3 * torch.randn(xa.shape, generator=g), xa + 0.3 * torch.randn(xa.shape, generator=g),
               xb + 0.3 * torch.randn(xb.shape, generator=g))


def build():
    model = DualEncoder()
    opt = torch.optim.AdamW(model.parameters(), lr=1.5e-3, weight_decay=0.05)
    return model, opt, torch.amp.GradScaler("cpu", growth_interval=30)


def train_range(model, opt, scaler, ema, data, lo, hi):
    model.train()
    for it, (a1, a2, b) in zip(range(lo, hi), data):
        with torch.autocast("cpu", dtype=torch.float16):
            za, zb, s = model(a1, b)
            loss = pair_loss(za, zb, s) + 0.5 * ntxent(za, model.a(a2), s)
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        gn = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=False)
        scaler.step(opt)
        scaler.update()
        opt.zero_grad()
        ema.update(model)
        if it % 7 == 0:
            print(f"{it:3d} loss {loss.item():.4f} temp {1 / s.item():.4f} gn {gn.item():.3f} scale {scaler.get_scale():.0f}")


@torch.no_grad()
def recall(model, data):
    model.eval()
    _, a, b = next(data)
    za, zb, _ = model(a, b)
    return ((za @ zb.t()).argmax(1) == torch.arange(BATCH)).float().mean().item()


def main():
    torch.manual_seed(1)
    data, ck = stream(1), Checkpointer()
    model, opt, scaler = build()
    ema = Ema(model)
    train_range(model, opt, scaler, ema, data, 0, BREAK_AT)
    ck.save(model=model, opt=opt, scaler=scaler, step=BREAK_AT)

    model, opt, scaler = build()
    blob = ck.load(model=model, opt=opt, scaler=scaler)
    print(f"resumed at {blob['step']} with scale {scaler.get_scale():.0f}")
    train_range(model, opt, scaler, ema, data, blob["step"], STEPS)
    model.load_state_dict(ema.avg)
    print(f"recall@1 {recall(model, data):.3f}")


if __name__ == "__main__":
    main()
