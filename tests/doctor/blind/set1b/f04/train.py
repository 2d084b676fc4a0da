import argparse

import torch
import torch.nn.functional as F

from layers import Restorer


def make_page(gen, paragraph, h=512, w=384):
    """Ink is 1, paper is 0."""
    page = torch.zeros(h, w)
    gap = int(torch.randint(150, 350, (1,), generator=gen))
    for line in range(6, h - 8, 14):
        if paragraph and gap < line < gap + 44:
            continue
        x = 6
        end = int(w - 6 - 18 * torch.rand(1, generator=gen).item())
        while x < end:
            width = int(torch.randint(2, 9, (1,), generator=gen))
            height = int(torch.randint(3, 9, (1,), generator=gen))
            page[line:line + height, x:x + width] = 1.0
            x += width + int(torch.randint(2, 5, (1,), generator=gen))
    return page


def degrade(patch, gen):
    """Weak print: ink lost and faded, paper stays clean after thresholding."""
    keep = (torch.rand(patch.shape, generator=gen) > 0.3).float()
    fade = 0.4 + 0.6 * torch.rand(patch.shape[0], 1, 1, 1, generator=gen)
    return patch * keep * fade


def crops(pages, n, size, gen):
    out = []
    for _ in range(n):
        page = pages[int(torch.randint(0, len(pages), (1,), generator=gen))]
        top = int(torch.randint(0, page.shape[0] - size, (1,), generator=gen))
        left = int(torch.randint(0, page.shape[1] - size, (1,), generator=gen))
        out.append(page[top:top + size, left:left + size])
    return torch.stack(out).unsqueeze(1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--iterations", type=int, default=100)
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--patch", type=int, default=32)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--seed", type=int, default=11)
    opt = parser.parse_args()

    torch.manual_seed(opt.seed)
    gen = torch.Generator().manual_seed(opt.seed)
    pages = [make_page(gen, k == 4) for k in range(6)]
    net = Restorer()
    optimizer = torch.optim.Adam(net.parameters(), lr=opt.lr, betas=(0.9, 0.99))
    scaler = torch.amp.GradScaler("cpu")
    window = []
    for it in range(1, opt.iterations + 1):
        clean = crops(pages, opt.batch_size, opt.patch, gen)
        noisy = degrade(clean, gen)
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.float16):
            out = net(noisy)
            loss = F.l1_loss(out, clean)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        window.append(loss.item())
        if it % 10 == 0:
            print(f"iter {it:4d} | l1 {sum(window) / len(window):.4f}")
            window.clear()


if __name__ == "__main__":
    main()
