import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--users", type=int, default=1500)
    p.add_argument("--items", type=int, default=400)
    p.add_argument("--dim", type=int, default=32)
    p.add_argument("--steps", type=int, default=150)
    p.add_argument("--batch", type=int, default=128)
    p.add_argument("--tau", type=float, default=0.1)
    return p.parse_args()


class Tower(nn.Module):
    """Bias-free projection tower, unit length output."""

    def __init__(self, dim):
        super().__init__()
        self.fc1 = nn.Linear(dim, 2 * dim, bias=False)
        self.fc2 = nn.Linear(2 * dim, dim, bias=False)

    def forward(self, x):
        z = self.fc2(F.relu(self.fc1(x)))
        return z / (z.norm(dim=-1, keepdim=True) + 1e-8)


class TwoTower(nn.Module):
    def __init__(self, n_items, dim):
        super().__init__()
        self.emb = nn.Embedding(n_items + 1, dim, padding_idx=0)
        self.user_tower = Tower(dim)
        self.item_tower = Tower(dim)

    def encode_history(self, hist):
        keep = (hist > 0).float().unsqueeze(-1)
        e = (self.emb(hist) * keep).sum(1)
        return e / keep.sum(1).clamp(min=1)

    def forward(self, hist, pos):
        u = self.user_tower(self.encode_history(hist))
        v = self.item_tower(self.emb(pos))
        return u, v


def make_log(n_users, n_items, max_len=20):
    g = torch.Generator().manual_seed(0)
    genre_of_user = torch.randint(0, 10, (n_users,), generator=g)
    per = n_items // 10
    hist = torch.zeros(n_users, max_len, dtype=torch.long)
    length = torch.randint(1, max_len + 1, (n_users,), generator=g)
    length[torch.rand(n_users, generator=g) < 0.04] = 0  # signed up this week
    for i in range(n_users):
        n = int(length[i])
        hist[i, :n] = genre_of_user[i] * per + torch.randint(1, per + 1, (n,), generator=g)
    pos = genre_of_user * per + torch.randint(1, per + 1, (n_users,), generator=g)
    return hist, pos


def main():
    args = parse()
    torch.manual_seed(1)
    torch.set_num_threads(1)
    hist, pos = make_log(args.users, args.items)
    model = TwoTower(args.items, args.dim)
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    sched = torch.optim.lr_scheduler.LambdaLR(
        opt, lambda s: 0.5 * (1 + math.cos(math.pi * min(1.0, s / args.steps))))
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 12)
    gen = torch.Generator().manual_seed(2)
    for step in range(args.steps):
        idx = torch.randint(0, args.users, (args.batch,), generator=gen)
        opt.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.float16):
            u, v = model(hist[idx], pos[idx])
            logits = u @ v.t() / args.tau
            loss = F.cross_entropy(logits, torch.arange(args.batch))
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        gn = nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        scaler.step(opt)
        scaler.update()
        sched.step()
        if step % 25 == 0:
            print(f"{step:4d} loss={loss.item():.3f} |g|={gn.item():.3f} scale={scaler.get_scale():g}")
    hit = (logits.argmax(-1) == torch.arange(args.batch)).float().mean().item()
    print(f"in-batch hit@1 {hit:.3f}")


if __name__ == "__main__":
    main()
