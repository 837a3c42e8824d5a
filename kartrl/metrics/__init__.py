"""Metrics of a run: TensorBoard, scalars.csv, the terminal, videos."""
