"""What commands share: arguments, the policy that they find, progress of long work, results for other programs."""
