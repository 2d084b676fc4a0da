import torch


def save_slim(model, path):
    state = {k: v.detach().cpu().half() for k, v in model.state_dict().items()}
    torch.save({"model": state}, path)


def load(model, path, skip=("head.",)):
    state = torch.load(path, weights_only=True)["model"]
    state = {k: v.float() for k, v in state.items() if not k.startswith(skip)}
    missing = model.load_state_dict(state, strict=False)
    print("loaded, missing:", missing.missing_keys)
