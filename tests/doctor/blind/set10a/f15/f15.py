"""Feed-forward style transfer: a small network learns to apply a texture."""
import torch
from torch import nn


class FeatureExtractor(nn.Module):
    """Fixed random filters with large receptive fields stand in for a pretrained net."""

    def __init__(self, ch=16, gain=6.0):
        super().__init__()
        g = torch.Generator().manual_seed(123)
        self.convs = nn.ModuleList([nn.Conv2d(3, ch, 5, padding=2), nn.Conv2d(ch, ch, 3, 2, 1)])
        for conv in self.convs:
            w = torch.randn(conv.weight.shape, generator=g)
            conv.weight.data = gain * w / w[0].numel() ** 0.5
            conv.bias.data.zero_()
        self.requires_grad_(False)

    def forward(self, x):
        feats = []
        for conv in self.convs:
            x = torch.relu(conv(x))
            feats.append(x)
        return feats


class StyleNet(nn.Module):
    def __init__(self, ch=12):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, ch, 5, padding=2), nn.InstanceNorm2d(ch, affine=True), nn.ReLU(),
            nn.Conv2d(ch, ch, 3, padding=1), nn.InstanceNorm2d(ch, affine=True), nn.ReLU(),
            nn.Conv2d(ch, 3, 3, padding=1))

    def forward(self, x):
        return x + 0.5 * torch.tanh(self.net(x))


def gram(f):
    b, c, h, w = f.shape
    f = f.reshape(b, c, h * w)
    return torch.bmm(f, f.transpose(1, 2)) / (c * h * w)


def content_images(n, g, size=48):
    base = torch.rand(n, 3, 4, 4, generator=g)
    return nn.functional.interpolate(base, size=(size, size), mode="bilinear") * 2 - 1


def style_image(size=48):
    axis = torch.arange(float(size))
    yy, xx = torch.meshgrid(axis, axis, indexing="ij")
    rgb = torch.stack([torch.sin(0.9 * xx), torch.sin(0.7 * (xx + yy)), torch.cos(0.5 * yy)])
    return 1.5 * rgb[None]


class StyleTrainer:
    def __init__(self, lr=5e-3, style_weight=0.2, content_weight=0.01):
        self.net, self.features = StyleNet(), FeatureExtractor()
        self.opt = torch.optim.Adam(self.net.parameters(), lr)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 8)
        self.sw, self.cw = style_weight, content_weight
        with torch.no_grad():
            self.targets = [gram(f) for f in self.features(style_image())]

    def losses(self, x):
        with torch.autocast("cpu", dtype=torch.float16):
            out = self.net(x)
            fo, fx = self.features(out), self.features(x)
            style = 0.0
            for f, t in zip(fo, self.targets):
                style = style + nn.functional.mse_loss(gram(f).float(), t.expand(len(x), -1, -1))
            content = nn.functional.mse_loss(fo[-1].float(), fx[-1].float())
        return style, content

    def step(self, x):
        style, content = self.losses(x)
        loss = self.sw * style + self.cw * content
        self.opt.zero_grad(set_to_none=True)
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.opt)
        nn.utils.clip_grad_norm_(self.net.parameters(), 10.0)
        self.scaler.step(self.opt)
        self.scaler.update()
        return style.item(), content.item()


def main(steps=80):
    torch.manual_seed(19)
    g = torch.Generator().manual_seed(19)
    trainer = StyleTrainer()
    for i in range(steps):
        style, content = trainer.step(content_images(4, g))
        if i % 10 == 0 or i == steps - 1:
            print(f"step {i:3d} style {style:.4f} content {content:.4f} "
                  f"scale {trainer.scaler.get_scale():g}")
    torch.save(trainer.net.state_dict(), "/dev/null")


if __name__ == "__main__":
    main()
