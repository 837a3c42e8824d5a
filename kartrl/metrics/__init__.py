"""What a run tells: TensorBoard, scalars.csv, the terminal, videos."""
