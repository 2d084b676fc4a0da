import torch.nn as nn
import torch.nn.functional as F


class Backbone(nn.Module):
    def __init__(self, bands=4, ch=16):
        super().__init__()
        self.c1 = nn.Conv2d(bands, ch, 3, padding=1, bias=False)
        self.b1 = nn.BatchNorm2d(ch)
        self.c2 = nn.Conv2d(ch, ch * 2, 3, stride=2, padding=1, bias=False)
        self.b2 = nn.BatchNorm2d(ch * 2)
        self.c3 = nn.Conv2d(ch * 2, ch * 2, 3, stride=2, padding=1, bias=False)
        self.b3 = nn.BatchNorm2d(ch * 2)
        self.dim = ch * 2

    def forward(self, x):
        x = F.relu(self.b1(self.c1(x)))
        x = F.relu(self.b2(self.c2(x)))
        x = F.relu(self.b3(self.c3(x)))
        return x.mean((2, 3))


class Classifier(nn.Module):
    def __init__(self, backbone, n):
        super().__init__()
        self.backbone = backbone
        self.head = nn.Linear(backbone.dim, n)

    def forward(self, x):
        return self.head(self.backbone(x))
