import copy

import torch
import torch.nn as nn
import torch.nn.functional as F

from buffer import Replay


class Dqn:
    def __init__(self, opts, obs_dim=4, actions=2):
        self.o = opts
        self.q = nn.Sequential(nn.Linear(obs_dim, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, actions))
        self.target = copy.deepcopy(self.q).requires_grad_(False)
        self.opt = torch.optim.Adam(self.q.parameters(), lr=opts["lr"])
        self.scaler = torch.amp.GradScaler("cpu", init_scale=128.0)
        self.mem = Replay(opts["memory"], obs_dim)
        self.g = torch.Generator().manual_seed(opts["seed"])
        self.actions = actions
        self.updates = 0

    def act(self, obs, eps):
        if torch.rand(1, generator=self.g).item() < eps:
            return int(torch.randint(0, self.actions, (1,), generator=self.g))
        with torch.inference_mode():
            return int(self.q(obs).argmax())

    def learn(self):
        o, a, r, n, end = self.mem.sample(self.o["batch"], self.g)
        with torch.autocast("cpu", dtype=torch.float16):
            with torch.no_grad():
                best = self.target(n).float().max(1).values
                y = r + self.o["gamma"] * (1 - end) * best
            q = self.q(o).gather(1, a.unsqueeze(1)).squeeze(1)
        loss = F.mse_loss(q.float(), y)
        self.opt.zero_grad()
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.opt)
        nn.utils.clip_grad_norm_(self.q.parameters(), 10.0)
        self.scaler.step(self.opt)
        self.scaler.update()
        self.updates += 1
        if self.updates % self.o["sync"] == 0:
            self.target.load_state_dict(self.q.state_dict())
        return loss.item()
