import sys
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

from nets import DepthNet, disp_to_depth


def make_scenes(n, size=24, seed=0):
    """Ground plane below, far background above, one box in between."""
    g = torch.Generator().manual_seed(seed)
    imgs, depths = [], []
    rows = torch.arange(size).float()
    for _ in range(n):
        horizon = int(torch.randint(6, 12, (1,), generator=g))
        depth = torch.full((size, size), 600.0)
        depth[horizon:] = (40.0 / (rows[horizon:] - horizon + 1)).clamp(max=80)[:, None]
        img = torch.rand(3, size, size, generator=g) * 0.1
        img[2, :horizon] += 0.9
        img[1, horizon:] += (rows[horizon:, None] - horizon) / size
        c = int(torch.randint(2, size - 8, (1,), generator=g))
        depth[horizon - 2:horizon + 4, c:c + 6] = 12.0
        img[:, horizon - 2:horizon + 4, c:c + 6] = torch.rand(3, 1, 1, generator=g)
        imgs.append(img)
        depths.append(depth)
    return TensorDataset(torch.stack(imgs), torch.stack(depths).unsqueeze(1))


def log_l1(pred, target):
    return (torch.log(pred.float()) - torch.log(target)).abs().mean()


def abs_rel(pred, target, cap=80.0):
    ok = target < cap
    return ((pred[ok] - target[ok]).abs() / target[ok]).mean().item()


class Trainer:
    def __init__(self, epochs=4, lr=4e-3):
        torch.manual_seed(21)
        self.loader = DataLoader(make_scenes(80), batch_size=8, shuffle=True)
        self.val = DataLoader(make_scenes(16, seed=9), batch_size=8)
        self.net = DepthNet()
        self.opt = torch.optim.Adam(self.net.parameters(), lr=lr)
        self.scaler = torch.amp.GradScaler("cpu")
        self.epochs = epochs
        self.steps = self.skipped = 0

    def step(self, img, depth):
        self.opt.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.float16):
            pred = disp_to_depth(self.net(img))
            loss = log_l1(pred, depth)
        before = self.scaler.get_scale()
        self.scaler.scale(loss).backward()
        self.scaler.step(self.opt)
        self.scaler.update()
        self.skipped += self.scaler.get_scale() < before
        self.steps += 1
        return loss.item()

    @torch.no_grad()
    def validate(self):
        self.net.eval()
        errs = [abs_rel(disp_to_depth(self.net(i)), d) for i, d in self.val]
        self.net.train()
        return sum(errs) / len(errs)

    def fit(self):
        for ep in range(self.epochs):
            losses = [self.step(i, d) for i, d in self.loader]
            print(f"[{ep}] loss {sum(losses) / len(losses):.4f} abs_rel {self.validate():.4f} "
                  f"steps {self.steps} skipped {self.skipped} scale {self.scaler.get_scale():g}")


if __name__ == "__main__":
    Trainer(epochs=int(sys.argv[1]) if len(sys.argv) > 1 else 4).fit()
