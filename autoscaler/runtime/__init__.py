"""The process: settings, leadership, the loop that runs controllers, telemetry, health. It knows no one's rules."""
