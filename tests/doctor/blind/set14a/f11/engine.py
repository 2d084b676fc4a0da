import torch
import torch.nn.functional as F


class Distiller:
    """Dense feature distillation: the student matches the unit-norm patch features of a frozen teacher."""

    def __init__(self, teacher, student, opt, weight=0.05, use_amp=True, device="cpu"):
        self.teacher, self.student, self.opt = teacher.eval().requires_grad_(False), student, opt
        self.weight, self.device, self.use_amp = weight, device, use_amp
        self.scaler = torch.amp.GradScaler(enabled=use_amp and torch.cuda.is_available())

    @torch.no_grad()
    def targets(self, x):
        return F.normalize(self.teacher(x), dim=1)

    def step(self, x):
        target = self.targets(x)
        self.opt.zero_grad(set_to_none=True)
        with torch.autocast(self.device, dtype=torch.float16, enabled=self.use_amp):
            feat = self.student(x)
            loss = self.weight * F.mse_loss(F.normalize(feat, dim=1), target)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.opt)
        self.scaler.update()
        return loss.item() / self.weight

    @torch.no_grad()
    def similarity(self, x):
        return F.cosine_similarity(self.student(x), self.teacher(x), dim=1).mean().item()
