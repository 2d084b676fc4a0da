"""Autoregressive images with half precision compute, float32 master weights and a fixed loss scale."""
import torch

from model import ImageGPT

LEVELS, SIZE, STEPS, SCALE = 8, 5, 110, 2.0 ** 10


def images(n):
    yy, xx = torch.meshgrid(torch.arange(SIZE), torch.arange(SIZE), indexing="ij")
    a, b, c = torch.randint(0, 2, (n, 1, 1)), torch.randint(0, 2, (n, 1, 1)), torch.randint(0, LEVELS, (n, 1, 1))
    return ((a * yy + b * xx + c) % LEVELS).flatten(1)


class MasterWeights:
    def __init__(self, model, lr):
        self.half = list(model.parameters())
        self.full = [p.detach().float().clone() for p in self.half]
        self.opt = torch.optim.AdamW(self.full, lr=lr, weight_decay=0.01)
        self.skipped = 0

    def step(self, scale, max_norm=1.0):
        for f, h in zip(self.full, self.half):
            f.grad = None if h.grad is None else h.grad.float() / scale
            h.grad = None
        grads = [f.grad for f in self.full if f.grad is not None]
        norm = torch.stack([g.norm() for g in grads]).norm()
        if not torch.isfinite(norm):
            self.skipped += 1
            return norm
        torch.nn.utils.clip_grads_with_norm_(self.full, max_norm, norm)
        self.opt.step()
        with torch.no_grad():
            for f, h in zip(self.full, self.half):
                h.copy_(f)
        return norm


def main():
    torch.manual_seed(19)
    model = ImageGPT(LEVELS, SIZE).half()
    master = MasterWeights(model, lr=4e-3)
    val = images(48)
    for step in range(STEPS):
        loss = model.nll(images(16))
        (loss * SCALE).backward()
        norm = master.step(SCALE)
        if step % 20 == 0 or step == STEPS - 1:
            with torch.no_grad():
                v = model.nll(val).item()
            print(f"step {step:3d} loss {loss.item():.4f} val {v:.4f} norm {norm.item():.3f} skipped {master.skipped}")
    s = model.sample(64)
    ok = sum(bool((images(512) == row).all(1).any()) for row in s)
    print(f"samples that are valid images: {ok}/64")


if __name__ == "__main__":
    main()
