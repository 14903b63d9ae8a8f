"""The recorded cases of KAI-Scheduler: read, run through the engine, and judged."""
