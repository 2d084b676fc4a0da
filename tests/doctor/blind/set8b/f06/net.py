import torch.nn as nn
import torch.nn.functional as F


class Residual(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(cout)
        self.skip = None if cin == cout and stride == 1 else nn.Conv2d(cin, cout, 1, stride, bias=False)

    def forward(self, x):
        s = x if self.skip is None else self.skip(x)
        h = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(h)) + s)


class SmallResNet(nn.Module):
    def __init__(self, classes, width=8):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, 1, 1, bias=False)
        self.layer1 = Residual(width, width, 1)
        self.layer2 = Residual(width, width * 2, 2)
        self.layer3 = Residual(width * 2, width * 4, 2)
        self.fc = nn.Linear(width * 4, classes)

    def forward(self, x):
        h = self.layer3(self.layer2(self.layer1(self.stem(x))))
        return self.fc(h.mean((2, 3)))
