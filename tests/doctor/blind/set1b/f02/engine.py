import torch

from geometry import disp_to_depth


class Trainer:
    def __init__(self, net, lr, steps, min_depth=1.0, max_depth=1000.0):
        self.net = net
        self.opt = torch.optim.Adam(net.parameters(), lr=lr)
        self.sched = torch.optim.lr_scheduler.CosineAnnealingLR(self.opt, steps, eta_min=lr / 4)
        self.scaler = torch.amp.GradScaler("cpu")
        self.min_depth, self.max_depth = min_depth, max_depth
        self.history = []

    def loss_fn(self, depth, target):
        diff = depth.float().log() - target.log()
        return diff.abs().mean() + 0.5 * (diff.pow(2).mean() - diff.mean().pow(2))

    def train_step(self, image, target):
        self.opt.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.float16):
            disp = self.net(image)
            _, depth = disp_to_depth(disp, self.min_depth, self.max_depth)
            loss = self.loss_fn(depth, target)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.opt)
        self.scaler.update()
        self.sched.step()
        self.history.append(loss.item())
        return loss.item(), depth.detach()
