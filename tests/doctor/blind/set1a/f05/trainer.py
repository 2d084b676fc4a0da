import torch
import torch.nn.functional as F


class Trainer:
    def __init__(self, model, lr, diversity_weight=0.02, log_every=10):
        self.model = model
        self.opt = torch.optim.Adam(model.parameters(), lr=lr, betas=(0.9, 0.98))
        self.scaler = torch.amp.GradScaler("cpu")
        self.w_div = diversity_weight
        self.log_every = log_every
        self.num_updates = 0
        self.ema = None

    def train_step(self, x):
        self.model.vq.set_step(self.num_updates)
        with torch.autocast("cpu", dtype=torch.float16):
            recon, stats = self.model(x)
            rec = F.mse_loss(recon, x)
            loss = rec + self.w_div * self.model.vq.diversity(stats)
        self.opt.zero_grad()
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.opt)
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.scaler.step(self.opt)
        self.scaler.update()
        self.num_updates += 1
        self.ema = rec.item() if self.ema is None else 0.9 * self.ema + 0.1 * rec.item()
        if self.num_updates % self.log_every == 0:
            print(
                f"{self.num_updates:4d} loss {loss.item():.4f} rec(ema) {self.ema:.4f} tau {self.model.vq.tau:.3f} "
                f"ppl {stats['perplexity'].item():.1f} gnorm {norm.item():.3f}"
            )
