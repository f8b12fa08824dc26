"""What a format costs: devices, throughput, energy, area, and circuits of its own."""
