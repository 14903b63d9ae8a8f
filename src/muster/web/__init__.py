"""The dashboard and its HTTP API: shows what a scheduler that writes nothing sees and decides."""
