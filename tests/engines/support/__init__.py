"""What the engines' tests share: servers started for them, and the same rows put into each engine."""
