import sys

import torch
import torch.nn.functional as F

from backbone import Backbone, Classifier
from satdata import tiles


def pretrain(path, steps=25):
    x, y = tiles(200, 4, seed=1)
    model = Classifier(Backbone(), 4)
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for s in range(steps):
        idx = torch.randint(0, len(x), (20,))
        loss = F.cross_entropy(model(x[idx]), y[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(f"pretraining loss {loss.item():.4f}")
    state = {k: v.half() if v.is_floating_point() else v for k, v in model.backbone.state_dict().items()}
    torch.save({"state_dict": state, "arch": "backbone-s", "precision": "fp16"}, path)


if __name__ == "__main__":
    torch.manual_seed(4)
    pretrain(sys.argv[1] if len(sys.argv) > 1 else "backbone_fp16.pt")
