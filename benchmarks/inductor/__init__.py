"""Which functions Undertow differentiates as `torch.compile` lowers them.

    python -m benchmarks.inductor [--into DIR] [WORD ...]

`functions` holds ordinary PyTorch functions, `lowering` compiles their forward with
Inductor and has its Triton kernels launched through `undertow.differentiable`,
`verdict` compares the gradients with autograd's in float64, `table` writes the results.
With a GPU Inductor generates code for it, and Triton launches it; without one Inductor
takes the CPU for a Triton device, and Undertow's evaluator executes what it generates.
"""
