"""Training runs: data, model directory, validation and reports around the loop."""
