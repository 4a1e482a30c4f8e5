"""What runs beside the UI loop: engine calls, the publisher of snapshots, the pump of a terminal."""
