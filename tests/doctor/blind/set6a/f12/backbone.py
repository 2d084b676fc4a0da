import torch
import torch.nn as nn


class Backbone(nn.Module):
    def __init__(self, cin=24, width=40):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(cin, width), nn.GELU(), nn.Linear(width, width), nn.GELU())
        self.out_features = width

    def forward(self, x):
        return self.layers(x)


class Classifier(nn.Module):
    def __init__(self, n_classes=1000):
        super().__init__()
        self.backbone = Backbone()
        self.norm = nn.LayerNorm(self.backbone.out_features, elementwise_affine=False)
        self.fc = nn.Linear(self.backbone.out_features, n_classes)

    def forward(self, x):
        return self.fc(self.norm(self.backbone(x)))

    def reset_classifier(self, n_classes):
        self.fc = nn.Linear(self.backbone.out_features, n_classes)


def pretrained():
    torch.manual_seed(42)
    return Classifier()
