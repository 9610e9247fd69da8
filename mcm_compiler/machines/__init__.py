"""What models run on: devices, channels that they share, and routes between them."""
