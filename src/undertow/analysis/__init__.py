"""What holds of a kernel: which values matter, who touches which address."""
