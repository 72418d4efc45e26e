"""What tests share: worlds to test on, and doors to what nothing else may use of the inside of dpsql."""
