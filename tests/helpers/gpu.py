"""Tests that run once more on a GPU, where there is one."""

import pytest
import torch

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU on this machine")
GPU = pytest.param("cuda", marks=needs_gpu)


@pytest.fixture
def exact_products():
    """Without TF32, whose products have ten bits, so that a GPU's results can be compared with a CPU's."""
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    yield
    torch.backends.cudnn.allow_tf32 = before
