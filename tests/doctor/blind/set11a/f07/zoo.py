"""A stand-in for the model zoo: builds the 'released' backbone file."""
import torch
import torch.nn as nn


def backbone(width=16):
    return nn.Sequential(
        nn.Conv2d(3, width, 3, padding=1), nn.ReLU(),
        nn.Conv2d(width, width, 3, stride=2, padding=1), nn.ReLU(),
        nn.Conv2d(width, 2 * width, 3, stride=2, padding=1), nn.ReLU(),
    )


def release(path, sparsity=0.2, seed=0):
    """Structured pruning of the dense model (lowest L1 filters are cut), as published."""
    torch.manual_seed(seed)
    net = backbone()
    state = net.state_dict()
    for key, w in state.items():
        if w.ndim == 4:
            k = int(sparsity * w.size(0))
            worst = w.abs().flatten(1).sum(1).argsort()[:k]
            w[worst] = 0.0
    torch.save({"state_dict": state, "sparsity": sparsity}, path)


def load_backbone(path, standardize=True):
    ckpt = torch.load(path, weights_only=True)
    state = ckpt["state_dict"]
    if standardize:
        # unit-norm filters, the gain is learned again downstream
        for key, w in list(state.items()):
            if w.ndim == 4:
                norm = w.flatten(1).norm(dim=1).view(-1, 1, 1, 1)
                state[key] = w / norm
    net = backbone()
    net.load_state_dict(state)
    return net
