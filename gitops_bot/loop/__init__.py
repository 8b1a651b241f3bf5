"""The loop: an agent improves, a judge measures, the best is kept, and a person is waited for at no cost."""
