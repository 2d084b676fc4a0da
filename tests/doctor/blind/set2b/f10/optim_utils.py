import torch


class RowSGD(torch.optim.Optimizer):
    """Plain SGD for large embedding tables; no cell moves more than max_update a step."""

    def __init__(self, params, lr=10.0, max_update=1.0):
        super().__init__(params, dict(lr=lr, max_update=max_update))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            cap = group["max_update"]
            for p in group["params"]:
                if p.grad is not None:
                    p.sub_((p.grad * group["lr"]).clamp_(-cap, cap))


def build(model, lr, emb_lr):
    emb = list(model.sparse.parameters())
    ids = {id(p) for p in emb}
    dense = [p for p in model.parameters() if id(p) not in ids]
    return {"dense": torch.optim.Adam(dense, lr=lr), "sparse": RowSGD(emb, lr=emb_lr)}
