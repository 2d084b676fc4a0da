import torch


def make_image(size=32, max_boxes=3):
    """returns an image, boxes in pixels of the full resolution (x16), or a broken file"""
    img = 0.2 * torch.randn(1, size, size)
    boxes = []
    for _ in range(int(torch.randint(0, max_boxes + 1, (1,)))):
        w, h = torch.randint(6, 18, (2,)).tolist()
        x, y = torch.randint(0, size - w, (1,)).item(), torch.randint(0, size - h, (1,)).item()
        img[0, y:y + h, x:x + w] += 1.0
        boxes.append([16.0 * x, 16.0 * y, 16.0 * (x + w), 16.0 * (y + h)])
    if torch.rand(1).item() < 0.04:
        img[:, size // 2:] = float("nan")  # truncated upload
    return img, torch.tensor(boxes).reshape(-1, 4)


def batches(steps, n=4):
    for i in range(steps):
        if i in (13, 29):
            # night shots, nothing to see
            yield [(0.2 * torch.randn(1, 32, 32), torch.zeros(0, 4)) for _ in range(n)]
        else:
            yield [make_image() for _ in range(n)]
