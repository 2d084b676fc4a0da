import torch


class Lookahead:
    def __init__(self, base, k=5, alpha=0.5):
        self.base = base
        self.k = k
        self.alpha = alpha
        self.counter = 0
        self.slow = [[p.detach().clone() for p in g["params"]] for g in base.param_groups]

    @property
    def param_groups(self):
        return self.base.param_groups

    @property
    def state(self):
        return self.base.state

    def zero_grad(self, set_to_none=True):
        self.base.zero_grad(set_to_none=set_to_none)

    def state_dict(self):
        return {"base": self.base.state_dict(), "slow": self.slow, "counter": self.counter}

    def load_state_dict(self, state):
        self.base.load_state_dict(state["base"])
        self.slow = state["slow"]
        self.counter = state["counter"]

    @torch.no_grad()
    def step(self, closure=None):
        loss = self.base.step(closure)
        self.counter += 1
        if self.counter % self.k == 0:
            for group, slow in zip(self.param_groups, self.slow):
                for p, s in zip(group["params"], slow):
                    s.add_(p - s, alpha=self.alpha)
                    p.copy_(s)
        return loss
