"""Tests that run once more on a GPU, where there is one."""

import pytest
import torch

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU on this machine")
GPU = pytest.param("cuda", marks=needs_gpu)
