"""Backbone with folded normalisation for deployment and fine-tuning."""
import torch
from torch import nn


class ConvBN(nn.Module):
    def __init__(self, i, o, stride):
        super().__init__()
        self.conv = nn.Conv2d(i, o, 3, stride, 1, bias=False)
        self.bn = nn.BatchNorm2d(o)

    def forward(self, x):
        return torch.relu(self.bn(self.conv(x)))


class Folded(nn.Module):
    def __init__(self, i, o, stride):
        super().__init__()
        self.conv = nn.Conv2d(i, o, 3, stride, 1)

    def forward(self, x):
        return torch.relu(self.conv(x))


def build(layer, widths=(3, 16, 32, 48)):
    return nn.Sequential(*[layer(a, b, 2) for a, b in zip(widths[:-1], widths[1:])])


@torch.no_grad()
def fold(backbone):
    """Merge each batch norm into its convolution and return a compact state dict."""
    state = {}
    for i, layer in enumerate(backbone):
        bn = layer.bn
        gain = bn.weight / bn.running_var.sqrt()
        weight = layer.conv.weight * gain[:, None, None, None]
        bias = bn.bias - bn.running_mean * gain
        state[f"{i}.conv.weight"] = weight.half()
        state[f"{i}.conv.bias"] = bias.half()
    return state
