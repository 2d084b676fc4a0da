"""An ensemble of small regressors trained side by side with vmap; the worst member is replaced by the best now and then."""
import argparse
import copy

import torch
from torch import nn
from torch.func import functional_call, stack_module_state, vmap


def member(dim=24):
    return nn.Sequential(nn.Linear(2, dim), nn.Tanh(), nn.Linear(dim, dim), nn.Tanh(), nn.Linear(dim, 1))


def surface(n, g):
    x = torch.rand(n, 2, generator=g) * 4 - 2
    y = torch.sin(2 * x[:, 0]) * x[:, 1] + 0.05 * torch.randn(n, generator=g)
    return x, y


class Ensemble:
    def __init__(self, count):
        self.nets = [member() for _ in range(count)]
        self.skeleton = copy.deepcopy(self.nets[0]).to("meta")
        self.params, self.buffers = stack_module_state(self.nets)
        self.score = torch.zeros(count)

    def losses(self, x, y):
        def single(params, buffers):
            out = functional_call(self.skeleton, (params, buffers), (x,)).squeeze(-1)
            return nn.functional.mse_loss(out.float(), y)

        with torch.autocast("cpu", dtype=torch.float16):
            values = vmap(single)(self.params, self.buffers)
        self.score = 0.8 * self.score + 0.2 * values.detach()
        return values

    def replace_worst(self, noise=0.01):
        best, worst = int(self.score.argmin()), int(self.score.argmax())
        for i, net in enumerate(self.nets):
            state = {k: v[best if i == worst else i].detach().clone() for k, v in self.params.items()}
            if i == worst:
                state = {k: v + noise * torch.randn_like(v) for k, v in state.items()}
            net.load_state_dict(state)
        self.params, self.buffers = stack_module_state(self.nets)
        self.score[worst] = self.score[best]
        return best, worst


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--members", type=int, default=4)
    ap.add_argument("--steps", type=int, default=120)
    ap.add_argument("--exploit-every", type=int, default=40)
    args = ap.parse_args()
    torch.manual_seed(50)
    g = torch.Generator().manual_seed(51)
    ens = Ensemble(args.members)
    opt = torch.optim.Adam(ens.params.values(), lr=1e-2)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 12)
    for step in range(1, args.steps + 1):
        loss = ens.losses(*surface(64, g)).sum()
        opt.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        if step % 10 == 0:
            print(step, " ".join(f"{s:.4f}" for s in ens.score.tolist()))
        if step % args.exploit_every == 0 and step < args.steps:
            best, worst = ens.replace_worst()
            print(f"member {worst} is now a copy of member {best}")


if __name__ == "__main__":
    main()
