import torch


class SAM(torch.optim.Optimizer):
    """Sharpness-aware minimisation around any base optimizer."""

    def __init__(self, params, base, rho=0.05, **kwargs):
        super().__init__(params, dict(rho=rho, **kwargs))
        self.base = base(self.param_groups, **kwargs)
        self.param_groups = self.base.param_groups
        self.defaults.update(self.base.defaults)

    @torch.no_grad()
    def ascend(self):
        norm = self._norm()
        for group in self.param_groups:
            factor = group["rho"] / (norm + 1e-12)
            for p in group["params"]:
                if p.grad is None:
                    continue
                self.state[p]["home"] = p.detach().clone()
                p.add_(p.grad * factor)
        self.zero_grad()

    @torch.no_grad()
    def descend(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.copy_(self.state[p]["home"])
        self.base.step()
        self.zero_grad()

    def _norm(self):
        grads = [p.grad.norm() for g in self.param_groups for p in g["params"] if p.grad is not None]
        return torch.stack(grads).norm()
