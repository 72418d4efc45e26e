"""What tests need of the inside of dpsql: each module is the one door to what nothing else may use."""
