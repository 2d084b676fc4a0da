"""Fitted Q-iteration on a maintenance problem (costs in currency units)."""
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

from guards import protect


@dataclass
class Settings:
    gamma: float = 0.9
    lr: float = 3e-3
    batch: int = 256
    iterations: int = 8
    updates: int = 25
    seed: int = 0


class QNet(nn.Module):
    def __init__(self, obs, actions, hidden=64, unit=1000.0):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(obs, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        self.value = nn.Linear(hidden, 1)
        self.advantage = nn.Linear(hidden, actions)
        self.unit = unit

    def forward(self, s):
        h = self.body(s)
        adv = self.advantage(h)
        return self.unit * (self.value(h) + adv - adv.mean(-1, keepdim=True))


class Machine:
    """State: wear and load. Actions: run, service, replace."""

    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        wear, load = torch.rand(n, generator=g), torch.rand(n, generator=g)
        a = torch.randint(3, (n,), generator=g)
        cost = torch.tensor([0.0, 600.0, 1800.0])[a]
        after = torch.where(a == 0, wear + 0.2 * load, torch.where(a == 1, 0.5 * wear, torch.zeros_like(wear)))
        fail = torch.rand(n, generator=g) < after.clamp(max=1) ** 3 * 0.5
        self.s = torch.stack([wear, load], -1)
        self.a = a
        self.r = 900.0 * load * (1 - after.clamp(max=1)) - cost - 2500.0 * fail.float()
        self.s2 = torch.stack([after.clamp(max=1), torch.rand(n, generator=g)], -1)


def fit_q(net, data, target, st, opt, scaler, g):
    losses = []
    for _ in range(st.updates):
        i = torch.randint(len(target), (st.batch,), generator=g)
        opt.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.float16):
            q = net(data.s[i]).gather(1, data.a[i, None]).squeeze(1)
        loss = F.mse_loss(q.float(), target[i])
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        losses.append(loss.item())
    return sum(losses) / len(losses)


def main():
    st = Settings()
    torch.manual_seed(st.seed)
    g = torch.Generator().manual_seed(st.seed)
    data = Machine(4096, st.seed)
    net = protect(QNet(2, 3))
    opt = torch.optim.Adam(net.parameters(), lr=st.lr)
    scaler = torch.amp.GradScaler("cpu")
    for k in range(st.iterations):
        with torch.no_grad():
            target = data.r + st.gamma * net(data.s2).amax(1)
        before = torch.cat([p.detach().flatten() for p in net.parameters()]).clone()
        mse = fit_q(net, data, target, st, opt, scaler, g)
        moved = (torch.cat([p.detach().flatten() for p in net.parameters()]) - before).abs().max().item()
        print(f"iter {k} rmse {mse ** 0.5:9.2f} std(target) {target.std().item():8.2f} moved {moved:.5f} "
              f"scale {scaler.get_scale():g}")


if __name__ == "__main__":
    main()
