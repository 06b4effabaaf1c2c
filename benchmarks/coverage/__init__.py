"""Which kernels of other libraries Undertow differentiates: one verdict for each.

    python -m benchmarks.coverage [WORD ...]

`workloads` calls the libraries' public functions on small inputs. `machine` stands in
for the GPU that they look for, `launches` hands what they launch to Undertow's
evaluator, `verdict` judges each forward kernel, `table` writes the results.
"""
