# Competition baseline: image deblurring and relighting, single fold, single file.
import gc
import os
import random
import warnings

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

warnings.filterwarnings("ignore")


class CFG:
    seed = 2023
    size = 32
    n_train = 96
    batch_size = 4
    grad_accum = 4
    epochs = 5
    lr = 1e-3
    rec_weight = 1e-3
    fp16 = True
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def set_seed(seed):
    random.seed(seed)
    os.environ["PYTHONHASHSEED"] = str(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


class BlurDataset(Dataset):
    def __init__(self, n):
        base = torch.rand(n, 3, 8, 8)
        self.sharp = F.interpolate(base, size=CFG.size, mode="nearest") * 0.5 + 0.25
        self.blur = 0.7 * F.avg_pool2d(F.pad(self.sharp, (1, 1, 1, 1), mode="replicate"), 3, stride=1)

    def __len__(self):
        return len(self.sharp)

    def __getitem__(self, i):
        return {"image": self.blur[i], "target": self.sharp[i]}


class ResidualDeblur(nn.Module):
    def __init__(self, ch=10):
        super().__init__()
        self.inp = nn.Conv2d(3, ch, 3, padding=1)
        self.mid = nn.Conv2d(ch, ch, 3, padding=1)
        self.out = nn.Conv2d(ch, 3, 3, padding=1)
        nn.init.normal_(self.out.weight, std=1e-2)
        nn.init.zeros_(self.out.bias)

    def forward(self, x):
        h = F.relu(self.inp(x))
        h = h + F.relu(self.mid(h))
        return x + self.out(h)


def psnr(mse):
    return 10 * np.log10(1.0 / max(mse, 1e-12))


def train_fn(loader, model, optimizer, scaler, scheduler):
    model.train()
    mse_sum, largest = 0.0, 0.0
    optimizer.zero_grad(set_to_none=True)
    for step, batch in enumerate(loader):
        image, target = batch["image"].to(CFG.device), batch["target"].to(CFG.device)
        with torch.autocast(CFG.device.type, dtype=torch.float16, enabled=CFG.fp16):
            pred = model(image)
            mse = F.mse_loss(pred, target)
            loss = CFG.rec_weight * mse / CFG.grad_accum
        scaler.scale(loss).backward()
        if (step + 1) % CFG.grad_accum == 0:
            scaler.unscale_(optimizer)
            largest = max(largest, float(nn.utils.clip_grad_norm_(model.parameters(), 10.0)))
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad(set_to_none=True)
            scheduler.step()
        mse_sum += mse.item()
    return mse_sum / len(loader), largest


def train_loop():
    set_seed(CFG.seed)
    loader = DataLoader(BlurDataset(CFG.n_train), batch_size=CFG.batch_size, shuffle=True)
    model = ResidualDeblur().to(CFG.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=CFG.lr, weight_decay=0.0, eps=1e-12)
    n_updates = CFG.epochs * len(loader) // CFG.grad_accum
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=5 * CFG.lr, total_steps=n_updates + 1)
    scaler = torch.cuda.amp.GradScaler(enabled=CFG.fp16)
    for epoch in range(CFG.epochs):
        mse, gn = train_fn(loader, model, optimizer, scaler, scheduler)
        print(f"Epoch {epoch + 1} - mse: {mse:.6f}  psnr: {psnr(mse):.3f}  grad: {gn:.3e}  scale: {scaler.get_scale()}")
    gc.collect()


if __name__ == "__main__":
    train_loop()
