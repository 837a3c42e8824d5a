"""What commands print beside their tables: progress of long work, and results for other programs."""
